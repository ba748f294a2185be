// A trie of strings, to find all entries that a text begins with.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace graft::tokenizer {

class ByteTrie {
 public:
  // The last of equal strings is kept; empty strings are ignored.
  explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> entries) {
    std::ranges::stable_sort(entries, {}, &std::pair<std::string_view, std::int32_t>::first);
    std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
    root_.fill(kNoNode);
    nodes_.emplace_back();
    // A node without children yet, and the range of entries below it.
    struct Open {
      std::uint32_t node;
      std::size_t depth;
      std::size_t begin;
      std::size_t end;
    };
    std::vector<Open> open = {{0, 0, 0, entries.size()}};
    while (!open.empty()) {
      const Open at = open.back();
      open.pop_back();
      std::size_t i = at.begin;
      for (; i < at.end && entries[i].first.size() == at.depth; ++i)
        nodes_[at.node].value = entries[i].second;
      nodes_[at.node].first_edge = static_cast<std::uint32_t>(edges_.size());
      while (i < at.end) {
        const auto byte = static_cast<std::uint8_t>(entries[i].first[at.depth]);
        std::size_t end = i + 1;
        while (end < at.end && static_cast<std::uint8_t>(entries[end].first[at.depth]) == byte)
          ++end;
        const auto child = static_cast<std::uint32_t>(nodes_.size());
        nodes_.emplace_back();
        edges_.push_back({byte, child});
        if (at.node == 0) root_[byte] = child;
        open.push_back({child, at.depth + 1, i, end});
        i = end;
      }
      nodes_[at.node].num_edges =
          static_cast<std::uint32_t>(edges_.size()) - nodes_[at.node].first_edge;
    }
  }

  // Whether any entry begins with this byte.
  bool begins(char c) const { return root_[static_cast<std::uint8_t>(c)] != kNoNode; }

  // Calls take(length, value) for each entry that `text` begins with, shortest first.
  template <class Take>
  void prefixes(std::string_view text, Take take) const {
    if (text.empty()) return;
    std::uint32_t node = root_[static_cast<std::uint8_t>(text[0])];
    for (std::size_t length = 1; node != kNoNode; ++length) {
      if (nodes_[node].value >= 0) take(length, nodes_[node].value);
      if (length == text.size()) return;
      node = child(nodes_[node], static_cast<std::uint8_t>(text[length]));
    }
  }

 private:
  static constexpr std::uint32_t kNoNode = 0xFFFFFFFF;

  struct Node {
    std::int32_t value = -1;
    std::uint32_t first_edge = 0;
    std::uint32_t num_edges = 0;
  };
  struct Edge {
    std::uint8_t byte;
    std::uint32_t node;
  };

  std::uint32_t child(const Node& node, std::uint8_t byte) const {
    const auto begin = edges_.begin() + node.first_edge;
    const auto end = begin + node.num_edges;
    const auto found = std::ranges::lower_bound(begin, end, byte, {}, &Edge::byte);
    return found == end || found->byte != byte ? kNoNode : found->node;
  }

  std::array<std::uint32_t, 256> root_{};
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // grouped by node, sorted by byte
};

}  // namespace graft::tokenizer
