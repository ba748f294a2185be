#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

#include "graft/base/error.h"
#include "graft/vision/formats/formats.h"

namespace graft::vision {
namespace {

// libjpeg reports errors with longjmp: this state outlives the jump, and functions that call
// libjpeg have no objects with destructors.
struct JpegReader {
  jpeg_error_mgr errors = {};
  std::jmp_buf jump = {};
  jpeg_decompress_struct info = {};
  std::array<char, JMSG_LENGTH_MAX> message = {};
  Image image = {};
  std::vector<std::uint8_t> cmyk = {};  // one row
};

JpegReader& reader_of(j_common_ptr info) {
  return *static_cast<JpegReader*>(info->client_data);
}

[[noreturn]] void on_jpeg_error(j_common_ptr info) {
  JpegReader& reader = reader_of(info);
  info->err->format_message(info, reader.message.data());
  std::longjmp(reader.jump, 1);  // NOLINT(cert-err52-cpp): libjpeg's interface
}

void on_jpeg_message(j_common_ptr /*info*/) {}

// A truncated file is an error: libjpeg would fill up with gray.
void on_jpeg_warning(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) on_jpeg_error(info);
}

// Ink to light, as Pillow converts it. Adobe stores CMYK inverted.
void cmyk_to_rgb(const std::uint8_t* cmyk,
                 bool is_inverted,
                 std::int64_t count,
                 std::uint8_t* rgb) {
  for (std::int64_t i = 0; i < count; ++i, cmyk += 4) {
    const auto ink = [&](int channel) {
      const int value = cmyk[channel];
      return is_inverted ? 255 - value : value;
    };
    const int black = ink(3);
    for (int c = 0; c < kChannels; ++c)
      *rgb++ = static_cast<std::uint8_t>(std::max(0, 255 - ink(c) - black));
  }
}

// False: reader.message says why.
bool read_jpeg_header(JpegReader& reader, std::span<const std::byte> bytes) {
  if (setjmp(reader.jump) != 0) return false;  // NOLINT(cert-err52-cpp): libjpeg's interface
  jpeg_decompress_struct& info = reader.info;
  info.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = on_jpeg_error;
  reader.errors.output_message = on_jpeg_message;
  reader.errors.emit_message = on_jpeg_warning;
  info.client_data = &reader;
  jpeg_create_decompress(&info);
  info.client_data = &reader;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  return true;
}

bool read_jpeg_rows(JpegReader& reader) {
  if (setjmp(reader.jump) != 0) return false;  // NOLINT(cert-err52-cpp): libjpeg's interface
  jpeg_decompress_struct& info = reader.info;
  const bool is_cmyk = info.num_components == 4;
  info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    std::uint8_t* row = reader.image.pixel(0, info.output_scanline);
    JSAMPROW out = is_cmyk ? reader.cmyk.data() : row;
    jpeg_read_scanlines(&info, &out, 1);
    if (is_cmyk) cmyk_to_rgb(out, info.saw_Adobe_marker == TRUE, reader.image.width, row);
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes, const ImageLimits& limits) {
  JpegReader reader;
  // NOLINTNEXTLINE(cppcoreguidelines-special-member-functions): a local that is never copied
  struct Freed {
    jpeg_decompress_struct& info;
    ~Freed() { jpeg_destroy_decompress(&info); }
  } const freed = {reader.info};
  bool is_read = read_jpeg_header(reader, bytes);
  if (is_read) {
    const std::int64_t width = reader.info.image_width;
    const std::int64_t height = reader.info.image_height;
    check_size("JPEG", width, height, limits);
    reader.image = Image(width, height);
    reader.cmyk.resize(static_cast<std::size_t>(width * 4));
    is_read = read_jpeg_rows(reader);
  }
  if (!is_read) fail("JPEG image: ", reader.message.data());
  return std::move(reader.image);
}

}  // namespace graft::vision
