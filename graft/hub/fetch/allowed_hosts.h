// The hosts that a server may fetch URLs of its clients from. Private addresses (this machine,
// local networks) are only those that the list names, whatever a name resolves to.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft::hub {

struct UrlHost {
  std::string scheme;  // "http" or "https"
  std::string host;    // lower case, IPv6 without brackets
  int port = 0;
};
// Throws Error for other schemes, user names in the URL, and malformed URLs.
UrlHost parse_url(const std::string& url);

// Whether the address (as inet_ntop() writes it) is not of the public internet: loopback, local,
// link-local, multicast, or unknown; also where another address is embedded in an IPv6 one.
bool is_private_address(const std::string& address);

class AllowedHosts {
 public:
  // Entries HOST (ports 80 and 443) or HOST:PORT, a host being a name or an IP address. Throws
  // Error for another form.
  explicit AllowedHosts(const std::vector<std::string>& entries);

  bool empty() const { return hosts_.empty(); }
  bool allows(const UrlHost& url) const;
  // A private address is allowed when an entry is that address; of this machine, also with the
  // entry "localhost".
  bool allows_address(const std::string& address) const;

 private:
  struct Entry {
    std::string host;
    int port = 0;  // 0: 80 and 443
  };
  static Entry parse_entry(std::string_view text);

  std::vector<Entry> hosts_;
};

}  // namespace graft::hub
