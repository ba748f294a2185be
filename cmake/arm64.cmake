# Toolchain file: cross compiles for ARM64 with Debian's g++-aarch64-linux-gnu. `./dev build arm64` unpacks the libraries into
# GRAFT_SYSROOT; tests run under qemu-aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
get_filename_component(GRAFT_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot ABSOLUTE)
set(CMAKE_SYSROOT ${GRAFT_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${GRAFT_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${GRAFT_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${GRAFT_SYSROOT}/usr/share/pkgconfig)
# The newest CPU that qemu knows: all levels of graft/kernels/cpu/arm.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-cpu;max;-L;${GRAFT_SYSROOT})
