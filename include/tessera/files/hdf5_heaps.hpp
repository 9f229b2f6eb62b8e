#pragma once
// A check of what libhdf5 believes when it reads texts.

#include <filesystem>

namespace tessera {

/// Checks the global heaps of an HDF5 file, in which texts of any length lie: collections that begin with "GCOL", a
/// version, and their size, followed by objects with their sizes (HDF5 File Format Specification 3.0, III.E). libhdf5
/// 1.10 adds up the sizes without checking them, so with a damaged one it loops without end or reads beyond its memory.
/// IoError if a collection is longer than the file, or its objects do not fill it.
void check_hdf5_heaps(const std::filesystem::path& path);

}  // namespace tessera
