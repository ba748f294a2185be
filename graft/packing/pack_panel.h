// Packs rows of a weight as stored in a checkpoint into a panel (panel_layout.h).

#pragma once

#include <cstddef>

#include "graft/quant/codec.h"
#include "graft/quant/stored_rows.h"
#include "graft/tensor/dtype.h"

namespace graft::packing {

// Packs up to 16 stored rows into a panel; missing rows become zeros. `type` has a packed layout
// and cols is a multiple of its chunk. FP8 rows without scales get scales of 1. `codecs` convert
// F16 to bf16: those of any instruction set write the same bytes.
void pack_panel(DType type,
                const quant::StoredRows& rows,
                const quant::CodecTable& codecs,
                std::byte* panel);

}  // namespace graft::packing
