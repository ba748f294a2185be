// Images of http and https URLs in messages, from the hosts of --allow-image-urls. They are fetched
// on threads of their own, the clients in turn, and replaced by data: URLs.

#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/hub/fetch/allowed_fetch.h"
#include "graft/hub/fetch/allowed_hosts.h"
#include "graft/server/http/exchange.h"
#include "graft/server/http/worker_pool.h"

namespace graft::server {

// Of one request, whatever its messages are.
inline constexpr std::size_t kMaxImageUrls = 32;
inline constexpr std::size_t kMaxFetchedBytes = std::size_t{64} << 20U;

bool has_image_urls(const OrderedJson& messages);

class ImageFetcher {
 public:
  // Throws Error for an entry that is not HOST or HOST:PORT. Without entries every URL is refused.
  explicit ImageFetcher(const std::vector<std::string>& hosts, hub::FetchLimits limits = {});
  ~ImageFetcher();
  ImageFetcher(const ImageFetcher&) = delete;
  ImageFetcher& operator=(const ImageFetcher&) = delete;

  bool is_enabled() const { return !hosts_.empty(); }
  // Throws ApiError 400 that names the part of the message.
  void replace_urls(OrderedJson& messages) const;
  // Calls `work` on a thread of the fetcher. An exception becomes the response of the exchange.
  void post(const http::ExchangePtr& exchange, std::uint64_t client, std::function<void()> work);
  // Ends running transfers and drops queued ones.
  void stop();

 private:
  std::string data_url(const std::string& url, std::size_t max_bytes) const;

  hub::AllowedHosts hosts_;
  hub::FetchLimits limits_;
  std::stop_source stop_;
  http::WorkerPool workers_;
};

}  // namespace graft::server
