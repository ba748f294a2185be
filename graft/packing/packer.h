// Packs weight matrices for the CPU kernels while a model loads: all threads, NUMA-local memory,
// and the cache file if there is one.

#pragma once

#include <span>
#include <utility>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/packing/packed_cache.h"
#include "graft/packing/packed_matrix.h"
#include "graft/packing/stored_matrix.h"
#include "graft/quant/codec.h"
#include "graft/tensor/arena.h"

namespace graft::packing {

class Packer {
 public:
  // pool == nullptr: packs on the calling thread. cache == nullptr: no cache file. Both must
  // outlive the packer; packed matrices may outlive all of them.
  explicit Packer(ThreadPool* pool, PackedCache* cache = nullptr) : pool_(pool), cache_(cache) {}

  // Matrices of types with a packed layout, cols a multiple of the chunk. Returns cached panels,
  // packs the others and adds them to the cache. Without a cache every NUMA node gets the rows that
  // its threads multiply; with one a matrix is contiguous, the same bytes on every machine. With a
  // cache for weights larger than memory, a few matrices at a time are in memory.
  std::vector<PackedMatrix> pack(std::span<const StoredMatrix> matrices,
                                 const quant::CodecTable& codecs);

 private:
  using Job = std::pair<const StoredMatrix*, PackedMatrix*>;  // what is packed, and the result

  void pack_in_memory(std::span<const Job> missing, const quant::CodecTable& codecs);
  void pack_to_disk(std::span<const Job> missing, const quant::CodecTable& codecs);

  ThreadPool* pool_;
  PackedCache* cache_;
  std::vector<Arena> arenas_;  // per NUMA node: slices of many matrices share its pages
};

}  // namespace graft::packing
