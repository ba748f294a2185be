// The CUDA toolkit that graft was built with. `graft doctor` compares it with the driver.

#pragma once

namespace graft {

// 1000 * major + 10 * minor, as CUDA numbers its versions; 0: built without CUDA.
int cuda_toolkit_version();

}  // namespace graft
