// The configuration values of a module, one struct per role, shared with plugins
// (graft/plugin_params.h). graft/models sets them.

#pragma once

#include "graft/plugin_params.h"

namespace graft::ops {

using plugin::AttentionParams;
using plugin::CompressedAttentionParams;
using plugin::CompressorParams;
using plugin::DeltaNetParams;
using plugin::EmbeddingParams;
using plugin::ExpertsParams;
using plugin::HyperConnectionParams;
using plugin::IndexerParams;
using plugin::kLongRopeFlag;
using plugin::KvCacheParams;
using plugin::LinearParams;
using plugin::MlaParams;
using plugin::MlpParams;
using plugin::NoParams;
using plugin::NormParams;
using plugin::Params;
using plugin::ProjectorParams;
using plugin::RopeParams;
using plugin::RouterParams;
using plugin::StateCacheParams;
using plugin::VisionTowerParams;

}  // namespace graft::ops
