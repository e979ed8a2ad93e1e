// The report in a browser: what Chromium makes of the page, at the widths of a phone, a tablet and a desk.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mac/report.hpp>
#include <nlohmann/json.hpp>

#include "report/page_check.hpp"
#include "report/tiny_run.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

using test::ScratchFolder;

const char* browser() {
  for (const char* name : {"chromium", "chromium-browser"})
    if (std::system(fmt::format("command -v {} > /dev/null 2>&1", name).c_str()) == 0) return name;
  return nullptr;
}

// Asks the laid-out page inside a frame of the wanted width: a window cannot be as narrow as a phone.
const char* const probe = R"(<!DOCTYPE html><html><body style="margin:0">
<iframe id="frame" src="page.html" style="width:WIDTHpx;height:900px;border:0"></iframe>
<pre id="answer"></pre>
<script>
document.getElementById("frame").onload = function () {
  var page = this.contentDocument, root = page.documentElement, wide = [];
  for (var details of page.querySelectorAll("details")) details.open = true;
  for (var element of page.querySelectorAll("body *")) {
    if (element.closest(".scroll") && !element.matches(".scroll") || element.closest("pre, svg") && !element.matches("pre, svg")) continue;
    var box = element.getBoundingClientRect();
    if (box.right > root.clientWidth + 1) wide.push(element.tagName + "." + element.getAttribute("class"));
  }
  var empty = 0, figures = page.querySelectorAll("figure"), drawings = page.querySelectorAll("figure div > svg");
  for (var drawing of drawings) {
    var box = drawing.getBoundingClientRect();
    if (box.width < 200 || box.height < 100 || drawing.querySelectorAll("path").length < 3) ++empty;
  }
  var cut = [], clipped = [];
  for (var box of page.querySelectorAll(".scroll"))
    if (box.scrollWidth > box.clientWidth + 1) cut.push(box.getAttribute("aria-label"));
  for (var drawing of drawings) {
    var outer = drawing.getBoundingClientRect();
    for (var text of drawing.querySelectorAll("text")) {
      var inner = text.getBoundingClientRect();
      if (inner.width > 0 && (inner.left < outer.left - 1 || inner.right > outer.right + 1)) clipped.push(text.textContent);
    }
  }
  // WCAG's contrast of what is drawn with the page behind it.
  var light = function (colour) {
    return colour.match(/[\d.]+/g).slice(0, 3).reduce(function (sum, part, i) {
      var c = part / 255;
      return sum + [.2126, .7152, .0722][i] * (c <= .04045 ? c / 12.92 : Math.pow((c + .055) / 1.055, 2.4));
    }, 0);
  };
  var behind = light(page.defaultView.getComputedStyle(page.body).backgroundColor), faintest = 21;
  for (var path of page.querySelectorAll("figure svg path")) {
    var style = page.defaultView.getComputedStyle(path);
    if (!path.getAttribute("d") || style.stroke === "none" || style.strokeDasharray !== "none") continue;
    var drawn = light(style.stroke);
    faintest = Math.min(faintest, (Math.max(drawn, behind) + .05) / (Math.min(drawn, behind) + .05));
  }
  var headline = page.querySelector("main > section p");
  document.getElementById("answer").textContent = JSON.stringify({
    cut: cut, clipped: clipped, headline: headline ? headline.className : null,
    headline_top: headline ? headline.getBoundingClientRect().bottom : 9999,
    sections: Array.from(page.querySelectorAll("main > section")).map(function (s) { return s.id; }),
    unnamed: page.querySelectorAll('svg[role=img]:not([aria-label])').length,
    scroll_width: root.scrollWidth, client_width: root.clientWidth, wide: wide, figures: figures.length,
    faintest: faintest, behind: behind, drawings: drawings.length, empty: empty, tables: page.querySelectorAll("table").length,
    font: Math.min.apply(null, Array.from(page.querySelectorAll("figure div > svg text")).map(
      function (text) {
  return text.textContent.trim() ? text.getBoundingClientRect().height : 99; }))
});
};
</script></body></html>)";

nlohmann::json look_at(const ScratchFolder& folder, int width, bool dark = false) {
  std::string frame = probe;
  frame.replace(frame.find("WIDTH"), 5, std::to_string(width));
  test::write_bytes(folder.file("frame.html"), frame);
  // Files may look into each other's frames for once; nothing is fetched from anywhere.
  const std::string command = fmt::format(
      "timeout 60 {} --headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
      "--disable-background-networking --disable-component-update --disable-sync "
      "--allow-file-access-from-files "
      "--blink-settings=preferredColorScheme={} "
      "--user-data-dir={} --window-size=1400,1000 --virtual-time-budget=5000 --dump-dom file://{} 2> "
      "/dev/null",
      browser(), dark ? 0 : 1, folder.file("profile"), folder.file("frame.html"));
  const auto [status, dom] = test::run_command(command);
  const std::string start = "<pre id=\"answer\">";
  const std::size_t from = dom.find(start), to = dom.find("</pre>");
  if (from == std::string::npos || to == std::string::npos) return {{"failed", dom}, {"status", status}};
  return nlohmann::json::parse(dom.substr(from + start.size(), to - from - start.size()), nullptr, false);
}

TEST(ReportInABrowser, ShowsFiguresAndTablesAndOverflowsAtNoWidth) {
  if (!browser()) GTEST_SKIP() << "Chromium is not installed: the report was not looked at in a browser";
  const ScratchFolder folder;
  test::make_run(folder.path() / "run", test::tiny_burgers);
  report_run(folder.file("run"), folder.file("page.html"));
  const std::string page = test::read_bytes(folder.file("page.html"));
  for (const int width : {390, 800, 1300}) {
    SCOPED_TRACE(fmt::format("{} pixels wide", width));
    const nlohmann::json seen = look_at(folder, width);
    ASSERT_TRUE(seen.is_object() && seen.contains("figures")) << seen.dump();
    EXPECT_EQ(seen["figures"], test::count(page, "<figure "));
    EXPECT_EQ(seen["drawings"], 6 + 6 + 6 + 2 + 4);  // panels, see report_test.cpp
    EXPECT_EQ(seen["empty"], 0);
    EXPECT_EQ(seen["tables"], test::count(page, "<table"));
    EXPECT_LE(seen["scroll_width"], seen["client_width"]);
    EXPECT_TRUE(seen["wide"].empty()) << seen["wide"].dump();
    EXPECT_GE(seen["font"], 6.0);  // pixels, the exponents of ticks: small but legible
    EXPECT_TRUE(seen["clipped"].empty()) << seen["clipped"].dump();
    EXPECT_TRUE(width < 1300 || seen["cut"].empty())
        << "a table that scrolls on a desk: " << seen["cut"].dump();
    EXPECT_TRUE(seen["headline"].get<std::string>().starts_with("headline")) << seen["headline"];
    EXPECT_LT(seen["headline_top"], 700) << "the verdict is seen without scrolling";
    EXPECT_EQ(seen["sections"], (std::vector<std::string>{"verdict", "figures", "tables", "run"}));
    EXPECT_EQ(seen["unnamed"], 0);
  }
}

// The faintest solid line, the grey of the floor, has a contrast of 3.9 with white.
constexpr double visible = 3;

TEST(ReportInABrowser, DrawsEverySolidLineVisiblyInTheDarkAndInTheLight) {
  if (!browser()) GTEST_SKIP() << "Chromium is not installed: the report was not looked at in a browser";
  const ScratchFolder folder;
  test::make_run(folder.path() / "run", test::tiny_lorenz);
  report_run(folder.file("run"), folder.file("page.html"));
  for (const bool dark : {false, true}) {
    SCOPED_TRACE(dark ? "dark" : "light");
    const nlohmann::json seen = look_at(folder, 800, dark);
    ASSERT_TRUE(seen.is_object() && seen.contains("figures")) << seen.dump();
    EXPECT_EQ(seen["behind"] < 0.5, dark);
    EXPECT_GT(seen["faintest"], visible);
    EXPECT_EQ(seen["empty"], 0);
    EXPECT_TRUE(seen["wide"].empty()) << seen["wide"].dump();
    EXPECT_TRUE(seen["clipped"].empty()) << seen["clipped"].dump();
  }
}

}  // namespace
}  // namespace mac
