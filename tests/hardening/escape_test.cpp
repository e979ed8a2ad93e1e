// What tables and cards quote does not become markup.
#include "evaluation/escape.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <mac/evaluation.hpp>

#include "base/standard_streams.hpp"

namespace mac {
namespace {

const Table hostile{
    "title\n# <script>", {"a|b", "x"}, {{"<b>`&\\", "1 ± 2"}, {"two\nlines\x1b[31m", "$_^~"}}};

TEST(Quoting, KeepsAMarkdownTableATable) {
  const std::string text = render(hostile, TableFormat::markdown);
  EXPECT_EQ(text.find("**title # &lt;script&gt;**\n"), 0u) << text;
  EXPECT_NE(text.find("| a\\|b "), std::string::npos) << text;
  EXPECT_NE(text.find("| &lt;b&gt;\\`&amp;\\\\ "), std::string::npos) << text;
  EXPECT_NE(text.find("| two lines[31m "), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::ranges::count(text, '\n'), 6) << "title, empty line, header, rule, two rows\n" << text;
}

TEST(Quoting, KeepsALatexRowARow) {
  const std::string text = render(hostile, TableFormat::latex);
  EXPECT_NE(text.find("  two lines[31m & \\$\\_\\^{}\\~{} \\\\\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\\caption{title \\# <script>}"), std::string::npos) << text;
}

TEST(Quoting, KeepsCellsOfCsvInTheirLines) {
  const std::string text = render(hostile, TableFormat::csv);
  EXPECT_EQ(text.find("# title # <script>\na|b,x\n"), 0u) << text;
  EXPECT_NE(text.find("\"two\nlines"), std::string::npos) << text;
}

TEST(Quoting, FencesCodeThatHasFences) {
  EXPECT_EQ(markdown_code("a\n```\n<script>", "toml"), "````toml\na\n```\n<script>\n````\n");
  EXPECT_EQ(markdown_code("a\n", ""), "```\na\n```\n");
}

TEST(Printable, LeavesTextAndShowsEverythingElse) {
  EXPECT_EQ(printable("one\n\ttwo ± ü €"), "one\n\ttwo ± ü €");
  EXPECT_EQ(printable("\x1b[2J\r\a\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b"
            "31m");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
}

TEST(Printable, KeepsAValueInItsLine) {
  EXPECT_EQ(printable_line("mac\nchecksum  fits\tthe contents\x1b"),
            "mac\\nchecksum  fits\\tthe contents\\x1b");
}

}  // namespace
}  // namespace mac
