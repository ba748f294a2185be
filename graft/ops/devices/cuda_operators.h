// The operators of libgraft_cuda.so without their code: names, roles, kwargs and the modules they
// support. Compiled in, as cuda_fusions() is, so that plans for GPUs need no libgraft_cuda.so; its
// registration (cuda/register.cpp) adds the factories to this list.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/ops/registry.h"

namespace graft::ops {

// In order of registration: the first one of a role that supports a module is its default. `make`
// and `accepts` are empty: the supported weight types are those of the kernels.
std::span<const OperatorInfo> cuda_operators();

// cuda.mla processes the expanded keys and values of as many heads at a time as fit into this many
// bytes. A head of 32,768 positions of DeepSeek-V3 takes 16 MB.
inline constexpr std::size_t kMlaExpandedBytes = std::size_t{512} << 20U;
// cuda.attention copies the keys and values of as many KV heads of a quantized cache at a time to
// F16 as fit into this many bytes, for prefill.
inline constexpr std::size_t kGatheredHeadBytes = std::size_t{256} << 20U;
// Max rows of short prefill chunks that cuda.mla absorbs at a time; with absorb_for_prefill: true
// all rows of the pass are.
inline constexpr std::int64_t kMlaAbsorbedRows = 1024;

// Max size of the heads that cuda.vision_tower computes: towers with larger ones run on the CPU.
inline constexpr std::int64_t kMaxVisionHeadDim = 128;

// Sparse attention on a GPU: cuda.mla processes as many rows at a time as have selected latents of
// this many bytes (cuda.compressed_attention: entries and tokens), cuda.indexer as many as have
// scores of this many bytes. A row of DeepSeek-V3.2 has 2.4 MB of latents, and 640 KB of scores at
// its longest context.
inline constexpr std::size_t kMlaSelectedBytes = std::size_t{256} << 20U;
inline constexpr std::size_t kIndexScoreBytes = std::size_t{128} << 20U;

}  // namespace graft::ops
