#include "graft/packing/packed_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/base/system/mapping_guard.h"

namespace graft::packing {
namespace {

// Bytes of a mapping: few enough mappings for any file (Linux allows 65,530), and more addresses
// than the file has are no cost.
constexpr std::uint64_t kWindowBytes = std::uint64_t{4} << 30U;
// Dirty bytes before they are written back: enough for long writes, little memory.
constexpr std::uint64_t kWriteBackBytes = std::uint64_t{128} << 20U;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

// A part of the file from `offset` on, mapped beyond its end: pages become readable as the file
// grows.
class PackedWriter::Window {
 public:
  Window(const NewFile& file, std::uint64_t offset, std::uint64_t bytes)
      : offset_(offset), bytes_(bytes) {
    void* data =
        ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.fd(), static_cast<off_t>(offset));
    if (data == MAP_FAILED) {
      fail(file.path().string(), ": cannot map ", bytes, " bytes at offset ", offset, ": ",
           std::strerror(errno));
    }
    data_ = static_cast<std::byte*>(data);
    guard_mapping({data_, bytes_}, file.path(), false);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() {
    unguard_mapping({data_, bytes_});
    ::munmap(data_, bytes_);
  }

  bool holds(std::uint64_t offset, std::uint64_t bytes) const {
    return offset >= offset_ && offset + bytes <= offset_ + bytes_;
  }
  std::span<const std::byte> at(std::uint64_t offset, std::size_t bytes) const {
    return {data_ + (offset - offset_), bytes};
  }

 private:
  std::uint64_t offset_;
  std::uint64_t bytes_;
  std::byte* data_ = nullptr;
};

PackedWriter::PackedWriter(const std::filesystem::path& path,
                           std::uint64_t fingerprint,
                           bool drop_pages)
    : file_(path), fingerprint_(fingerprint), drop_pages_(drop_pages) {
  file_.append(bytes_of(std::string(kPackedAlignment, '\0')));  // for the header
}

PackedWriter::~PackedWriter() = default;

SharedBytes PackedWriter::append(const PackedTensor& tensor) {
  const std::uint64_t offset = file_.bytes();
  file_.append(tensor.bytes);
  static constexpr std::array<std::byte, kPackedAlignment> kZeros = {};
  const std::uint64_t end = file_.bytes() % kPackedAlignment;
  if (end != 0) file_.append(std::span(kZeros).subspan(end));
  tensors_.push_back(tensor);
  offsets_.push_back(offset);
  if (drop_pages_ && file_.bytes() - started_ >= kWriteBackBytes) write_back();
  return map(offset, tensor.bytes.size());
}

SharedBytes PackedWriter::map(std::uint64_t offset, std::size_t bytes) {
  if (window_ == nullptr || !window_->holds(offset, bytes)) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = offset / page * page;
    window_ = std::make_shared<const Window>(
        file_, begin, std::max<std::uint64_t>(kWindowBytes, offset - begin + bytes));
  }
  return {.bytes = window_->at(offset, bytes), .owner = window_};
}

// Starts writing the newest pages, waits for those before them and drops these: at most two parts
// of kWriteBackBytes are in memory. Failures show in finish().
void PackedWriter::write_back() {
  const auto range = [&](std::uint64_t begin, std::uint64_t end, unsigned flags) {
    ::sync_file_range(file_.fd(), static_cast<off64_t>(begin), static_cast<off64_t>(end - begin),
                      flags);
  };
  range(started_, file_.bytes(), SYNC_FILE_RANGE_WRITE);
  if (started_ > written_back_) {
    range(written_back_, started_,
          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    ::posix_fadvise(file_.fd(), static_cast<off_t>(written_back_),
                    static_cast<off_t>(started_ - written_back_), POSIX_FADV_DONTNEED);
  }
  written_back_ = started_;
  started_ = file_.bytes();
}

void PackedWriter::finish() {
  const std::string table = packed_table(tensors_, offsets_);
  const std::string header = packed_header(fingerprint_, file_.bytes(), table);
  file_.append(bytes_of(table));
  file_.overwrite(0, bytes_of(header));
  file_.finish();
}

}  // namespace graft::packing
