// The host names under which clients may reach the server. Against DNS rebinding: a web page whose
// name resolves to this machine sends its own name in the Host header.

#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace graft::server {

class AllowedHosts {
 public:
  // IP addresses are always allowed: rebinding needs a name. Also allowed: localhost and names
  // below it, this machine's host name, `bound` (the address or name to listen on), and `names`;
  // "*" allows every name. Throws Error for a malformed name.
  AllowedHosts(const std::string& bound, const std::vector<std::string>& names);

  // `authority`: the Host header. Empty is allowed: browsers always send a host.
  bool allows(std::string_view authority) const;

 private:
  std::set<std::string> names_;
  bool allows_all_ = false;
};

// The origin of a URL such as https://chat.example, in lower case and without the default port.
// Throws Error for a URL that has more than scheme, host and port.
std::string origin_of_url(const std::string& url);

}  // namespace graft::server
