// Mapped files that are truncated while they are in use. Reading a page behind the new end raises
// SIGBUS, which would end the process: the handler maps zeros over the rest of the mapping instead
// and marks it as damaged, and users of the file check damage_of() and fail. What was read of a
// damaged file must not be used.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace graft {

// Installs the handler for the rest of the process. A SIGBUS at any other address has the effect
// that it had before. For programs that check damage_of() after every use of a file.
void install_mapping_guard();

// Called for every mapped file. The handler knows a few thousand at once. `is_whole`: the mapping
// is as long as the file.
void guard_mapping(std::span<const std::byte> bytes,
                   const std::filesystem::path& path,
                   bool is_whole = true);
void unguard_mapping(std::span<const std::byte> bytes);

// What happened to one of these files since it was mapped, with its size; nullopt: nothing. Reads
// one variable while no file is damaged.
std::optional<std::string> damage_of(std::span<const std::filesystem::path> files);

}  // namespace graft
