#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

#include <png.h>

#include "graft/base/error.h"
#include "graft/vision/formats/formats.h"

namespace graft::vision {
namespace {

// libpng reports errors with longjmp: this state outlives the jump, and functions that call libpng
// have no objects with destructors.
struct PngReader {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  std::size_t offset = 0;
  const ImageLimits* limits = nullptr;
  std::string message = {};
  Image image = {};
  std::int64_t width = 0;
  std::int64_t height = 0;
  int num_passes = 1;
};

void on_png_error(png_structp png, png_const_charp message) {
  static_cast<PngReader*>(png_get_error_ptr(png))->message = message;
  png_longjmp(png, 1);
}

void on_png_warning(png_structp /*png*/, png_const_charp /*message*/) {}

void read_png_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->size - reader->offset) png_error(png, "the file is truncated");
  std::memcpy(out, reader->data + reader->offset, count);
  reader->offset += count;
}

// 8-bit RGB from every color type: no alpha, and no gamma correction.
void set_png_transforms(png_structp png, png_infop info) {
  const int color = png_get_color_type(png, info);
  png_set_strip_16(png);
  png_set_packing(png);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  if ((color & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

// False: reader.message says why.
bool read_png_header(png_structp png, png_infop info, PngReader& reader) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's interface
  png_set_read_fn(png, &reader, read_png_bytes);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_QUIET_USE);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_read_info(png, info);
  reader.width = png_get_image_width(png, info);
  reader.height = png_get_image_height(png, info);
  return true;
}

bool read_png_rows(png_structp png, png_infop info, PngReader& reader) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's interface
  set_png_transforms(png, info);
  reader.num_passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != static_cast<std::size_t>(reader.width * kChannels))
    png_error(png, "unexpected row size");
  for (int pass = 0; pass < reader.num_passes; ++pass) {
    for (std::int64_t y = 0; y < reader.height; ++y)
      png_read_row(png, reader.image.pixel(0, y), nullptr);
  }
  return true;
}

}  // namespace

Image decode_png(std::span<const std::byte> bytes, const ImageLimits& limits) {
  PngReader reader = {.data = bytes.data(), .size = bytes.size(), .limits = &limits};
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_png_error, on_png_warning);
  if (png == nullptr) fail("PNG image: out of memory");
  png_infop info = png_create_info_struct(png);
  // NOLINTNEXTLINE(cppcoreguidelines-special-member-functions): a local that is never copied
  struct Freed {
    png_structp* png;
    png_infop* info;
    ~Freed() { png_destroy_read_struct(png, info, nullptr); }
  } const freed = {&png, &info};
  if (info == nullptr) fail("PNG image: out of memory");
  bool is_read = read_png_header(png, info, reader);
  if (is_read) {
    check_size("PNG", reader.width, reader.height, limits);
    reader.image = Image(reader.width, reader.height);
    is_read = read_png_rows(png, info, reader);
  }
  if (!is_read) fail("PNG image: ", reader.message);
  return std::move(reader.image);
}

}  // namespace graft::vision
