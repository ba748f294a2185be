#include "graft/quant/codec.h"

#include <cstddef>
#include <cstdint>

#include "graft/quant/blocks.h"
#include "graft/quant/iq_grids.h"

namespace graft::quant {

#define GRAFT_VECTOR_BYTES 16
#include "graft/quant/codecs-inl.h"

const CodecTable& reference_codecs() {
  return kAllCodecs;
}

}  // namespace graft::quant
