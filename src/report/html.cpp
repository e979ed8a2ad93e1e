#include "report/html.hpp"

#include <fmt/format.h>

namespace mac::report {

namespace {

constexpr const char* style_sheet = R"(
:root { color-scheme: light dark; --text: #1a1c20; --muted: #5b6270; --page: #ffffff; --line: #d9dde3;
        --band: #f5f6f8; --link: #0b5cad; --good: #1a7f4b; --bad: #c2410c; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e6ea; --muted: #a0a7b4; --page: #14171c; --line: #343a44; --band: #1c2027;
          --link: #7db7f5; --good: #4cc38a; --bad: #f28c4f; }
}
@media print {
  :root { color-scheme: light; --text: #000000; --muted: #444444; --page: #ffffff; --line: #bbbbbb; --band: #ffffff;
          --link: #000000; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 76rem; background: var(--page); color: var(--text);
       font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 0 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0; }
.headline { max-width: none; font-size: 1.25rem; line-height: 1.35; font-weight: 600; background: var(--band);
            border-left: .4rem solid var(--good); padding: .7rem 1rem; margin: 0 0 1rem; }
.headline.poor { border-color: var(--bad); }
.warning { border-left: .3rem solid var(--bad); background: var(--band); padding: .4rem .75rem; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.note { font-size: .875rem; color: var(--muted); }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 1rem 0; }
.scroll { overflow-x: auto; margin: 0 0 1.75rem; max-width: 100%; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { caption-side: top; text-align: left; padding: 0 0 .4rem; font-weight: 600; }
th, td { padding: .3rem .7rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line);
         font-weight: inherit; background: var(--page); }
td, tbody th { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; }
thead th { border-bottom: 2px solid var(--muted); font-weight: 600; vertical-align: bottom; max-width: 9rem;
           overflow-wrap: break-word; }
tbody tr:nth-child(even) > * { background: var(--band); }
tr.mean > * { border-top: 2px solid var(--muted); font-weight: 600; }
.spread { display: block; font-size: .75rem; color: var(--muted); font-weight: normal; }
.paper { color: var(--muted); font-style: italic; }
.facts { margin: 0 0 1.5rem; }
.facts th { font-weight: 600; color: var(--muted); vertical-align: top; white-space: nowrap; }
.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
figure { margin: 0 0 2.5rem; }
figcaption { font-size: .875rem; color: var(--muted); max-width: 46rem; margin: .25rem 0 .75rem; }
.legend { display: flex; flex-wrap: wrap; gap: .15rem 1.25rem; font-size: .875rem; margin: 0 0 .25rem; padding: 0;
          list-style: none; }
.legend li { display: flex; align-items: center; gap: .4rem; }
.sample { width: 36px; height: 8px; flex: none; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); gap: .5rem; }
.panels svg, .single svg { display: block; width: 100%; height: auto; }
.single { max-width: 46rem; }
.multiples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(11rem, 100%), 1fr)); gap: .25rem; }
.multiples svg { display: block; width: 100%; height: auto; }
@media (max-width: 40rem) {
  body { padding: 1rem .75rem 3rem; }
  table { font-size: .78rem; }
  th, td { padding: .25rem .35rem; }
  thead th { max-width: 5.5rem; }
  .facts th, .facts td { display: block; white-space: normal; border: 0; padding: 0; }
  .facts th { padding-top: .5rem; }
  .facts tr { border-bottom: 1px solid var(--line); display: block; padding-bottom: .4rem; }
}
details { margin: 1rem 0; }
summary { cursor: pointer; }
pre { overflow-x: auto; background: var(--band); padding: .75rem 1rem; border: 1px solid var(--line);
      border-radius: .3rem; font-size: .8rem; line-height: 1.4; overflow-wrap: normal; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  .scroll, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
  figure, table, .headline, .warning { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
}
)";

/// "1.044 ± 1.050" with all that follows the number in a line of its own.
std::string cell_text(const std::string& text) {
  const std::size_t spread = text.find(" ± ");
  if (spread == std::string::npos) return escaped(text);
  return escaped(text.substr(0, spread)) + " <span class=\"spread\">" + escaped(text.substr(spread + 1)) +
         "</span>";
}

/// A row of the table's body, or its header; the first cell says what the row is.
std::string cells(const std::vector<std::string>& texts, const std::vector<std::string>& header, bool head) {
  std::string row;
  for (std::size_t j = 0; j < texts.size(); ++j)
    row += fmt::format("<{0}{1}{2}>{3}</{0}>", (head || j == 0) && !texts[j].empty() ? "th" : "td",
                       texts[j].empty() ? ""
                       : head           ? " scope=\"col\""
                       : j == 0         ? " scope=\"row\""
                                        : "",
                       header[j] == "paper" ? " class=\"paper\"" : "", cell_text(texts[j]));
  return fmt::format("<tr{}>{}</tr>", !head && texts.front() == "mean" ? " class=\"mean\"" : "", row);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML has no way to write other control characters.
        if (static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t') result += c;
    }
  return result;
}

std::string html_table(const Table& table) {
  std::string text = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}\"><table><caption>{0}</caption>\n"
      "<thead>{1}</thead>\n<tbody>\n",
      escaped(table.title), cells(table.header, table.header, true));
  for (const auto& row : table.rows) text += cells(row, table.header, false) + "\n";
  return text + "</tbody></table></div>\n";
}

std::string html_facts(const Facts& facts) {
  std::string text = "<table class=\"facts\"><tbody>\n";
  for (const auto& [name, value] : facts)
    text += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escaped(name), escaped(value));
  return text + "</tbody></table>\n";
}

std::string html_paragraph(const std::string& text) { return "<p>" + escaped(text) + "</p>\n"; }

std::string html_headline(const std::string& text, bool good) {
  return fmt::format("<p class=\"headline{}\">{}</p>\n", good ? "" : " poor", escaped(text));
}

std::string html_warning(const std::string& text) {
  return "<p class=\"warning\"><strong>Warning.</strong> " + escaped(text) + "</p>\n";
}

std::string html_note(const std::string& text) { return "<p class=\"note\">" + escaped(text) + "</p>\n"; }

std::string html_folded(const std::string& summary, const std::string& html) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", escaped(summary), html);
}

std::string html_listing(const std::string& summary, const std::string& text) {
  return html_folded(summary, "<pre tabindex=\"0\">" + escaped(text) + "</pre>");
}

std::string html_page(const std::string& title, const std::string& lead,
                      const std::vector<Section>& sections) {
  std::string links, body;
  for (const Section& section : sections) {
    links += fmt::format("<a href=\"#{}\">{}</a>\n", section.id, escaped(section.title));
    body += fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", section.id, escaped(section.title),
                        section.body);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"description\" content=\"{2}\"/>\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n<p>{2}</p>\n<nav "
      "aria-label=\"Sections\">\n{3}</nav>\n{4}"
      "</main>\n</body>\n</html>\n",
      escaped(title), style_sheet, escaped(lead), links, body);
}

}  // namespace mac::report
