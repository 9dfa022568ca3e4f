// How functions and constants of the contract are declared, for the host and for CUDA devices alike.
#pragma once

// EADEM_FN has internal linkage everywhere: these headers are compiled once per instruction set, and the linker must
// never be able to put one set's copy in the place of another's. EADEM_INLINE is for one-instruction wrappers and
// vector templates, which must not become calls.
#if defined(__CUDACC__)
#define EADEM_FN static __host__ __device__ __forceinline__
#define EADEM_INLINE static __host__ __device__ __forceinline__
#else
#define EADEM_FN static inline
#define EADEM_INLINE [[gnu::always_inline]] static inline
#endif
#define EADEM_CONST static constexpr
