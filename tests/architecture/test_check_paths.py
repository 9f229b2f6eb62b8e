#!/usr/bin/env python3
"""check_paths.py must find what it is there to find."""

import unittest

from check_paths import check_text

CODE = "std::error_code error, none;\n"


class CheckPaths(unittest.TestCase):
    def finds(self, text):
        return len(check_text("a.cpp", CODE + text))

    def test_calls_with_an_error_code(self):
        for text in ("std::filesystem::exists(path / f(a, b), error)", "std::filesystem::rename(a, b, none);",
                     "for (std::filesystem::directory_iterator e(folder, error), end; e != end; e.increment(error)) {}",
                     "if (e != std::filesystem::directory_iterator()) {}", "const std::filesystem::path path = a;"):
            self.assertEqual(self.finds(text), 0, text)

    def test_calls_without(self):
        for text in ("std::filesystem::exists(path)", "std::filesystem::create_directories(path, other)",
                     "std::filesystem::file_size(\n    path)", "std::filesystem::remove_all(a / f(b, error))",
                     "for (const auto& e : std::filesystem::directory_iterator(folder)) {}",
                     "std::filesystem::directory_iterator e(folder);",
                     "std::filesystem::path p; if (entry.is_directory()) {}"):
            self.assertEqual(self.finds(text), 1, text)

    def test_a_file_that_catches(self):
        self.assertEqual(self.finds("fs::exists(p); } catch (const fs::filesystem_error& error) {"), 0)

    def test_names_the_line(self):
        self.assertIn("a.cpp:3: std::filesystem::is_empty", check_text("a.cpp", CODE + "\nstd::filesystem::is_empty(p);")[0])


if __name__ == "__main__":
    unittest.main()
