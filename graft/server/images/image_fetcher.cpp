#include "graft/server/images/image_fetcher.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/base64.h"
#include "graft/base/text/str.h"
#include "graft/hub/http/http.h"
#include "graft/server/api_error.h"
#include "graft/server/router.h"

namespace graft::server {
namespace {

constexpr std::size_t kNumFetchThreads = 4;

bool is_web_url(const std::string& url) {
  const auto starts_with = [&](std::string_view scheme) {
    return url.size() > scheme.size() &&
           std::equal(scheme.begin(), scheme.end(), url.begin(),
                      [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
  };
  return starts_with("http://") || starts_with("https://");
}

// Calls function(url, where) if the part is an image in OpenAI's form with an http or https URL.
template <class Part, class Function>
void visit_url(Part& part, const std::string& where, const Function& function) {
  if (!part.is_object()) return;
  const auto image = part.find("image_url");
  if (image == part.end()) return;
  const auto inner = image->is_object() ? image->find("url") : image;
  if (image->is_object() && inner == image->end()) return;
  if (!inner->is_string() || !is_web_url(inner->template get<std::string>())) return;
  function(*inner, where + (image->is_object() ? ".image_url.url" : ".image_url"));
}

// For each part of each message. Other forms are left to api::ChatFormat, which reports them.
template <class Messages, class Function>
void for_each_url(Messages& messages, const Function& function) {
  if (!messages.is_array()) return;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) continue;
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_array()) continue;
    for (std::size_t j = 0; j < content->size(); ++j)
      visit_url((*content)[j], str("messages[", i, "].content[", j, ']'), function);
  }
}

}  // namespace

bool has_image_urls(const OrderedJson& messages) {
  bool has_urls = false;
  for_each_url(messages, [&](const OrderedJson&, const std::string&) { has_urls = true; });
  return has_urls;
}

ImageFetcher::ImageFetcher(const std::vector<std::string>& hosts, hub::FetchLimits limits)
    : hosts_(hosts), limits_(limits), workers_(hosts.empty() ? 0 : kNumFetchThreads) {}

ImageFetcher::~ImageFetcher() {
  stop();
}

void ImageFetcher::stop() {
  stop_.request_stop();
  workers_.stop();
}

std::string ImageFetcher::data_url(const std::string& url, std::size_t max_bytes) const {
  hub::FetchLimits limits = limits_;
  limits.max_bytes = std::min(limits.max_bytes, max_bytes);
  return "data:image;base64," +
         base64_encode(hub::fetch_allowed(url, hosts_, limits, stop_.get_token()));
}

void ImageFetcher::replace_urls(OrderedJson& messages) const {
  std::size_t num_urls = 0;
  std::size_t num_bytes = 0;
  for_each_url(messages, [&](OrderedJson& url, const std::string& where) {
    if (++num_urls > kMaxImageUrls)
      throw ApiError(400, str(where, ": more than ", kMaxImageUrls, " image URLs"), where);
    try {
      url = data_url(url.get<std::string>(),
                     kMaxFetchedBytes - std::min(num_bytes, kMaxFetchedBytes));
      num_bytes += url.get_ref<const std::string&>().size() / 4 * 3;
    } catch (const hub::Cancelled&) {
      throw ApiError(503, "the server is shutting down");
    } catch (const Error& error) {
      throw ApiError(400,
                     str(where, ": ", error.what(),
                         "; the server fetches images from the hosts of --allow-image-urls only; "
                         "'data:' URLs are always read"),
                     where);
    }
  });
}

void ImageFetcher::post(const http::ExchangePtr& exchange,
                        std::uint64_t client,
                        std::function<void()> work) {
  workers_.post([exchange, work = std::move(work)] { with_error_response(exchange, work); },
                client);
}

}  // namespace graft::server
