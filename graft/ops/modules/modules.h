// The modules of a decoder, written once for all devices: they compose their children with the
// primitives of their device (BuildContext::primitives).

#pragma once

#include <memory>

#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops {

std::unique_ptr<Operator> make_attention(const BuildContext& context);
std::unique_ptr<Operator> make_mla(const BuildContext& context);
std::unique_ptr<Operator> make_delta_net(const BuildContext& context);
std::unique_ptr<Operator> make_indexer(const BuildContext& context);
std::unique_ptr<Operator> make_compressed_attention(const BuildContext& context);
std::unique_ptr<Operator> make_compressor(const BuildContext& context);
std::unique_ptr<Operator> make_compressed_indexer(const BuildContext& context);
std::unique_ptr<Operator> make_mlp(const BuildContext& context);
std::unique_ptr<Operator> make_moe(const BuildContext& context);

}  // namespace graft::ops
