#include "graft/kernels/cpu/packed/packed.h"

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/kernels/cpu/packed/unpacked_panel.h"
#include "graft/kernels/cpu/x86/tile_layout.h"
#include "graft/quant/blocks.h"

GRAFT_ISA_BEGIN(amx)

#define GRAFT_VECTOR_BYTES 64
#define GRAFT_TILES
#include "graft/kernels/cpu/packed/packed-inl.h"

// The intrinsic of g++ 12 declares only the first bytes as its operand.
#define GRAFT_TILE_CONFIGURE(layout) __asm__ volatile("ldtilecfg %0" ::"m"(layout))
#define GRAFT_TILE_RELEASE() _tile_release()
#define GRAFT_TILE_LOAD(tile, from, stride) _tile_loadd(tile, from, stride)
#define GRAFT_TILE_STORE(tile, to, stride) _tile_stored(tile, to, stride)
#define GRAFT_TILE_DOT(sums, x, w) _tile_dpbf16ps(sums, x, w)
#include "graft/kernels/cpu/x86/packed-bf16-inl.h"

constinit const PackedTable kPacked = with_bf16(kAllPacked);

GRAFT_ISA_END
