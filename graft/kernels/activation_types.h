// Constants of activation functions that the kernels of all devices share.

#pragma once

namespace graft::kernels {

// The factor in the sigmoid of GPT-OSS's clamped SwiGLU.
inline constexpr float kClampedSwigluAlpha = 1.702F;

}  // namespace graft::kernels
