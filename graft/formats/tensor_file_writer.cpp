#include "graft/formats/tensor_file_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graft/base/check.h"

namespace graft::formats {
namespace {

// Larger than norms and biases, so that thousands of them take few system calls; chunks of at least
// this size bypass the buffer.
constexpr std::size_t kBufferBytes = 1U << 20U;

std::uint64_t padding_of(std::uint64_t bytes, std::uint64_t alignment) {
  return (alignment - bytes % alignment) % alignment;
}

}  // namespace

TensorFileWriter::TensorFileWriter(const std::filesystem::path& path,
                                   std::span<const std::byte> header,
                                   std::vector<std::uint64_t> tensor_bytes,
                                   std::uint64_t alignment)
    : file_(path),
      tensor_bytes_(std::move(tensor_bytes)),
      alignment_(alignment),
      file_bytes_(header.size()) {
  GRAFT_CHECK(alignment > 0 && header.size() % alignment == 0, header.size(), " % ", alignment);
  for (const std::uint64_t bytes : tensor_bytes_) {
    file_bytes_ += bytes + padding_of(bytes, alignment_);
  }
  file_.expect_bytes(file_bytes_);
  buffer_.reserve(kBufferBytes);
  write(header);
  skip_finished_tensors();
}

void TensorFileWriter::append(std::span<const std::byte> data) {
  if (data.empty()) return;
  GRAFT_CHECK(tensor_idx_ < tensor_bytes_.size(), file_.path().string(), ": ", data.size(),
              " bytes after the last of ", tensor_bytes_.size(), " tensors");
  const std::uint64_t left = tensor_bytes_[tensor_idx_] - bytes_of_tensor_;
  GRAFT_CHECK(data.size() <= left, file_.path().string(), ": ", data.size(),
              " bytes appended to tensor ", tensor_idx_, ", which has ", left, " left");
  write(data);
  bytes_of_tensor_ += data.size();
  skip_finished_tensors();
}

void TensorFileWriter::finish() {
  GRAFT_CHECK(tensor_idx_ == tensor_bytes_.size(), file_.path().string(), ": ", tensor_idx_, " of ",
              tensor_bytes_.size(), " tensors are complete");
  flush();
  GRAFT_CHECK(file_.bytes() == file_bytes_, file_.bytes(), " of ", file_bytes_, " bytes");
  file_.finish();
}

void TensorFileWriter::write(std::span<const std::byte> data) {
  if (buffer_.size() + data.size() > kBufferBytes) flush();
  if (data.size() >= kBufferBytes) {
    file_.append(data);
  } else {
    buffer_.insert(buffer_.end(), data.begin(), data.end());
  }
}

void TensorFileWriter::write_padding(std::uint64_t num_bytes) {
  static constexpr std::array<std::byte, 4096> kZeros = {};
  while (num_bytes > 0) {
    const auto piece = std::min<std::uint64_t>(num_bytes, kZeros.size());
    write(std::span(kZeros).first(piece));
    num_bytes -= piece;
  }
}

void TensorFileWriter::flush() {
  file_.append(buffer_);
  buffer_.clear();
}

void TensorFileWriter::skip_finished_tensors() {
  while (tensor_idx_ < tensor_bytes_.size() && bytes_of_tensor_ == tensor_bytes_[tensor_idx_]) {
    write_padding(padding_of(bytes_of_tensor_, alignment_));
    ++tensor_idx_;
    bytes_of_tensor_ = 0;
  }
}

}  // namespace graft::formats
