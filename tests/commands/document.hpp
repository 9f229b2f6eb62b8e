#pragma once
// Pages of the repository that hold tables of what the program knows, each between two markers:
//   <!-- NAME: begin -->
//   <!-- NAME: end -->

#include <string>

/// Checks that the table NAME of a page is `markdown`. Writes it into the page instead if TESSERA_UPDATE is 1.
/// `page`: below the repository, "docs/strategies.md".
void check_table(const std::string& page, const std::string& name, const std::string& markdown);

/// The same of a whole file.
void check_file(const std::string& page, const std::string& text);

/// Returns the first line in which two texts differ: "line 12: ... instead of ...", or "" if they do not.
std::string first_difference(const std::string& found, const std::string& wanted);
