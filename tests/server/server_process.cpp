#include "tests/server/server_process.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graft/base/check.h"

namespace graft::tests {

std::string bundled_model() {
  return std::string(GRAFT_SOURCE_DIR) + "/models/sprout/sprout-Q6_K.gguf";
}

ServerProcess::ServerProcess(const std::vector<std::string>& arguments,
                             const std::string& error_file,
                             const std::vector<std::string>& environment) {
  std::vector<std::string> words = {GRAFT_PROGRAM, "serve", "--port", "0"};
  const bool names_model = std::ranges::find(arguments, "--model") != arguments.end();
  if (!names_model) words.insert(words.end(), {"--model", "sprout=" + bundled_model()});
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  int ends[2] = {};
  GRAFT_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  if (!error_file.empty()) {
    posix_spawn_file_actions_addopen(&actions, 2, error_file.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0644);
  }
  std::vector<std::string> variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  std::vector<char*> envp;
  for (std::string& variable : variables)
    envp.push_back(variable.data());
  envp.push_back(nullptr);
  const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  GRAFT_CHECK(error == 0, words[0], ": ", error);
  ::close(ends[1]);
  out_ = ends[0];
  char c = 0;
  while (::read(out_, &c, 1) == 1 && c != '\n')
    first_line_ += c;
  const std::size_t colon = first_line_.rfind(':');
  if (colon != std::string::npos)
    port_ = static_cast<std::uint16_t>(std::atoi(first_line_.c_str() + colon + 1));
}

ServerProcess::~ServerProcess() {
  if (pid_ != 0) {
    ::kill(pid_, SIGKILL);
    wait();
  }
  close_output();
}

void ServerProcess::close_output() {
  if (out_ >= 0) ::close(out_);
  out_ = -1;
}

void ServerProcess::signal(int number) const {
  ::kill(pid_, number);
}

int ServerProcess::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Client::Client(std::uint16_t port, int receive_bytes) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_bytes > 0)
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer makes a busy server much slower.
  const timeval limit = {.tv_sec = 300, .tv_usec = 0};
#else
  const timeval limit = {.tv_sec = 60, .tv_usec = 0};
#endif
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  is_connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

Client::~Client() {
  close();
}

void Client::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void Client::shutdown_send() const {
  ::shutdown(socket_, SHUT_WR);
}

void Client::reset() {
  const linger immediate = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &immediate, sizeof(immediate));
  close();
}

bool Client::has_input(int milliseconds) const {
  pollfd wanted = {.fd = socket_, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, milliseconds) == 1;
}

void Client::send(const std::string& bytes) const {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t count = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (count <= 0) return;  // the server closed its side; its response says why
    at += static_cast<std::size_t>(count);
  }
}

void Client::post(const std::string& path, const Json& body) const {
  send(request_text("POST", path, body.dump()));
}

void Client::set_read_timeout(std::chrono::milliseconds time) {
  read_deadline_ = std::chrono::steady_clock::now() + time;
}

void Client::wait_for_input() {
  if (!read_deadline_) return;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      *read_deadline_ - std::chrono::steady_clock::now());
  if (left.count() > 0 && has_input(static_cast<int>(left.count()))) return;
  reset();
  read_deadline_.reset();
}

bool Client::fill() {
  char bytes[16384];
  wait_for_input();
  const ssize_t count = ::recv(socket_, bytes, sizeof(bytes), 0);
  if (count <= 0) return false;
  buffer_.append(bytes, static_cast<std::size_t>(count));
  return true;
}

std::string Client::read_bytes(std::size_t count) {
  while (buffer_.size() < count && fill()) {}
  const std::string out = buffer_.substr(0, count);
  buffer_.erase(0, out.size());
  return out;
}

std::string Client::read_until(const std::string& end) {
  std::size_t found = std::string::npos;
  while ((found = buffer_.find(end)) == std::string::npos && fill()) {}
  return read_bytes(found == std::string::npos ? buffer_.size() : found + end.size());
}

Reply Client::read_reply(bool has_body) {
  Reply reply;
  std::istringstream head(read_until("\r\n\r\n"));
  std::string line;
  if (!std::getline(head, line) || line.size() < 12) return reply;
  reply.status = std::atoi(line.c_str() + 9);
  while (std::getline(head, line) && line != "\r") {
    const std::size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::ranges::transform(name, name.begin(), ::tolower);
    reply.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
  }
  if (!has_body) return reply;
  if (reply.headers.contains("content-length")) {
    reply.body = read_bytes(std::stoul(reply.headers["content-length"]));
  } else if (reply.headers.contains("transfer-encoding")) {
    for (;;) {
      const std::size_t size = std::strtoul(read_until("\r\n").c_str(), nullptr, 16);
      reply.body += read_bytes(size);
      read_bytes(2);
      if (size == 0) break;
    }
  } else if (reply.status != 204) {
    while (fill()) {}
    reply.body = read_bytes(buffer_.size());
  }
  return reply;
}

std::string request_text(const std::string& method,
                         const std::string& path,
                         const std::string& body,
                         const Headers& headers) {
  std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n";
  for (const auto& [name, value] : headers)
    text += name + ": " + value + "\r\n";
  if ((method == "POST" || !body.empty()) && !headers.contains("Content-Length"))
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

Reply ask(const ServerProcess& server,
          const std::string& method,
          const std::string& path,
          const std::string& body,
          const Headers& headers) {
  Client client(server.port());
  client.send(request_text(method, path, body, headers));
  return client.read_reply(method != "HEAD");
}

Reply get(const ServerProcess& server, const std::string& path) {
  return ask(server, "GET", path);
}

Reply post(const ServerProcess& server,
           const std::string& path,
           const Json& body,
           const Headers& headers) {
  return ask(server, "POST", path, body.dump(), headers);
}

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 600; ++i) {
    if (holds()) return true;
    ::usleep(100'000);
  }
  return false;
}

double metric(const ServerProcess& server, const std::string& name, const std::string& label) {
  const std::string text = get(server, "/metrics").body;
  const std::string wanted = "\n" + name + "{model_name=\"sprout\",engine=\"0\"" + label + "} ";
  const std::size_t found = text.find(wanted);
  return found == std::string::npos ? -1 : std::atof(text.c_str() + found + wanted.size());
}

std::vector<Json> events(const std::string& stream) {
  std::vector<Json> found;
  std::istringstream in(stream);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("data: ")) continue;
    const std::string data = line.substr(6);
    found.push_back(data == "[DONE]" ? Json(data) : Json::parse(data, nullptr, false));
  }
  return found;
}

std::vector<Json> lines(const std::string& stream) {
  std::vector<Json> found;
  std::istringstream in(stream);
  for (std::string line; std::getline(in, line);)
    found.push_back(Json::parse(line, nullptr, false));
  return found;
}

Json chat_body(const Json& more) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Find the sum of 62 and 1."}}}},
               {"temperature", 0}};
  body.update(more);
  return body;
}

Json endless_body() {
  return chat_body({{"stream", true}, {"ignore_eos", true}});
}

}  // namespace graft::tests
