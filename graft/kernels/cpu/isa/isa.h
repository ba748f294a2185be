// GRAFT_ISA_BEGIN(avx2) ... GRAFT_ISA_END compiles the code between for that instruction set, in a
// namespace of that name. Include every header before it: a std:: template instantiated inside
// would carry the instructions into baseline code when the linker merges the two copies.

#pragma once

#define GRAFT_PRAGMA(text) _Pragma(#text)

#if defined(__clang__)
#define GRAFT_TARGET_PUSH(features) \
  GRAFT_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define GRAFT_TARGET_POP GRAFT_PRAGMA(clang attribute pop)
#else
#define GRAFT_TARGET_PUSH(features) \
  GRAFT_PRAGMA(GCC push_options) GRAFT_PRAGMA(GCC target(features))
#define GRAFT_TARGET_POP GRAFT_PRAGMA(GCC pop_options)
#endif

// ARM64. The architecture is the one of the intrinsics in g++.
#if defined(__clang__)
#define GRAFT_TARGET_dotprod "dotprod"
#define GRAFT_TARGET_i8mm "dotprod,i8mm"
#define GRAFT_TARGET_bf16 "dotprod,i8mm,bf16"
#else
#define GRAFT_TARGET_dotprod "arch=armv8.2-a+dotprod"
#define GRAFT_TARGET_i8mm "arch=armv8.2-a+dotprod+i8mm"
#define GRAFT_TARGET_bf16 "arch=armv8.2-a+dotprod+i8mm+bf16"
#endif

#define GRAFT_TARGET_avx2 "avx2,fma,f16c,bmi2"
#define GRAFT_TARGET_avx512 "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c,bmi2"
#define GRAFT_TARGET_vbmi GRAFT_TARGET_avx512 ",avx512vbmi,avx512bitalg"
#define GRAFT_TARGET_amx GRAFT_TARGET_avx512 ",amx-tile,amx-int8,amx-bf16"

#define GRAFT_ISA_BEGIN(isa)            \
  GRAFT_TARGET_PUSH(GRAFT_TARGET_##isa) \
  namespace graft::kernels::cpu::isa {
#define GRAFT_ISA_END \
  }                   \
  GRAFT_TARGET_POP
