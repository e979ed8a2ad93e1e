// Pieces of the page. The page is HTML and well-formed XML at once, so that any tool can read it.
#pragma once

#include <mac/evaluation.hpp>
#include <string>
#include <utility>
#include <vector>

namespace mac::report {

/// Text with &, <, > and quotes as entities.
std::string escaped(std::string_view text);

/// A table with its title; it scrolls inside its own box where the page is narrow. What follows "±" in a cell stands below
/// the number, so that many models fit side by side.
std::string html_table(const Table& table);

/// Names and values, one pair a row.
using Facts = std::vector<std::pair<std::string, std::string>>;
std::string html_facts(const Facts& facts);

std::string html_paragraph(const std::string& text);
std::string html_headline(const std::string& text, bool good);  // the one sentence for those in a hurry
std::string html_warning(const std::string& text);              // a paragraph that stands out
std::string html_note(const std::string& text);                 // small print
/// Anything, folded away under a summary, which is text.
std::string html_folded(const std::string& summary, const std::string& html);
/// A text as it stands, folded away.
std::string html_listing(const std::string& summary, const std::string& text);

struct Section {
  std::string id, title, body;
};

/// The whole document.
std::string html_page(const std::string& title, const std::string& lead,
                      const std::vector<Section>& sections);

}  // namespace mac::report
