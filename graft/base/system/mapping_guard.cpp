#include "graft/base/system/mapping_guard.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

#include "graft/base/text/str.h"

namespace graft {
namespace {

// A checkpoint of 1 TB in shards of 4 GB has 250 files.
constexpr std::size_t kMaxMappings = 4096;

struct Mapping {
  std::atomic<std::uintptr_t> begin = 0;  // 0: unused
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> is_damaged = false;
  // Not used by the handler; guarded by the mutex of the table.
  std::filesystem::path path = {};
  std::uintptr_t file_bytes = 0;  // 0: unknown
};

struct MappingTable {
  std::array<Mapping, kMaxMappings> mappings = {};
  std::atomic<std::size_t> num_used = 0;  // all used ones are below it
  std::atomic<std::size_t> num_damaged = 0;
  std::atomic<bool> is_installed = false;
  std::mutex mutex = {};
  struct sigaction previous = {};
  std::uintptr_t page_bytes = 4096;
};

MappingTable& table() {
  // Never destroyed: mappings of static objects are unmapped later.
  static auto& table = *new MappingTable;
  return table;
}

// Maps zeros from the page of an address to the end of its mapping: behind the end of the file, all
// pages are missing. Only calls that are safe in a signal handler.
bool replace_missing_pages(void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  MappingTable& known = table();
  const std::size_t num_used = known.num_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < num_used; ++i) {
    Mapping& mapping = known.mappings[i];
    const std::uintptr_t begin = mapping.begin.load(std::memory_order_acquire);
    const std::uintptr_t end = mapping.end.load(std::memory_order_relaxed);
    if (begin == 0 || address < begin || address >= end) continue;
    const std::uintptr_t in_page = address % known.page_bytes;
    void* zeros = ::mmap(static_cast<std::byte*>(at) - in_page, end - address + in_page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) return false;
    if (!mapping.is_damaged.exchange(true)) known.num_damaged.fetch_add(1);
    return true;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_replaced = info->si_code == BUS_ADRERR && replace_missing_pages(info->si_addr);
  errno = error;
  if (is_replaced) return;
  const struct sigaction& previous = table().previous;
  const bool has_info = (previous.sa_flags & SA_SIGINFO) != 0;
  if (has_info && previous.sa_sigaction != nullptr)
    return previous.sa_sigaction(signal, info, context);
  if (!has_info && previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(signal);
  std::signal(signal, SIG_DFL);
  // The instruction runs again and ends the process; a signal that was sent is sent again.
  if (info->si_code <= 0) ::raise(signal);
}

std::string damage_text(const std::filesystem::path& path, std::uintptr_t num_bytes) {
  std::error_code error;
  const std::uintmax_t now = std::filesystem::file_size(path, error);
  if (!error && num_bytes > 0 && now >= num_bytes)
    return str(path.string(), ": reading failed while the file was in use; reload the model");
  const std::string before = num_bytes == 0 ? "" : str(", had ", num_bytes);
  return str(path.string(), ": was truncated while in use (", error ? 0 : now, " bytes", before,
             ")");
}

}  // namespace

void install_mapping_guard() {
  MappingTable& known = table();
  if (known.is_installed.exchange(true)) return;
  known.page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  // On the alternative stack where a thread has one; no deferral: the handler does not fault.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &known.previous);
}

void guard_mapping(std::span<const std::byte> bytes,
                   const std::filesystem::path& path,
                   bool is_whole) {
  MappingTable& known = table();
  const std::lock_guard lock(known.mutex);
  const auto unused = std::ranges::find_if(
      known.mappings, [](const Mapping& mapping) { return mapping.begin.load() == 0; });
  if (unused == known.mappings.end()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  unused->path = path;
  unused->file_bytes = is_whole ? bytes.size() : 0;
  unused->is_damaged = false;
  unused->end.store(begin + bytes.size(), std::memory_order_relaxed);
  unused->begin.store(begin, std::memory_order_release);
  const auto idx = static_cast<std::size_t>(unused - known.mappings.begin());
  known.num_used.store(std::max(known.num_used.load(), idx + 1), std::memory_order_release);
}

void unguard_mapping(std::span<const std::byte> bytes) {
  MappingTable& known = table();
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::lock_guard lock(known.mutex);
  const auto found = std::ranges::find_if(
      known.mappings, [&](const Mapping& mapping) { return mapping.begin.load() == begin; });
  if (found == known.mappings.end()) return;
  found->begin.store(0);
  if (found->is_damaged.exchange(false)) known.num_damaged.fetch_sub(1);
}

std::optional<std::string> damage_of(std::span<const std::filesystem::path> files) {
  MappingTable& known = table();
  if (known.num_damaged.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::lock_guard lock(known.mutex);
  for (const Mapping& mapping : known.mappings) {
    if (mapping.begin.load() == 0 || !mapping.is_damaged.load()) continue;
    if (std::ranges::find(files, mapping.path) != files.end())
      return damage_text(mapping.path, mapping.file_bytes);
  }
  return std::nullopt;
}

}  // namespace graft
