// The instructions of sm_90 that C++ does not name: mbarriers, bulk copies, warpgroup MMA, clusters. Addresses of
// shared memory are 32-bit (shared_address).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace eadem::kernels::cuda {

#define EADEM_DEVICE __device__ __forceinline__

EADEM_DEVICE uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// ---- mbarriers -----------------------------------------------------------------------------------------------------

EADEM_DEVICE void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
EADEM_DEVICE void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
EADEM_DEVICE void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
EADEM_DEVICE void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
EADEM_DEVICE void barrier_arrive(uint32_t barrier, int count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Where all threads of a group are done, one of them arrives for all. racecheck takes only a thread's own arrival for
// the end of its reads and writes: built for it, every thread arrives (docs/cuda.md).
#ifdef EADEM_RACECHECK
inline constexpr bool kEveryThreadArrives = true;
#else
inline constexpr bool kEveryThreadArrives = false;
#endif
// How often so many groups arrive.
EADEM_DEVICE constexpr int group_arrivals(int groups, int threads) {
  return kEveryThreadArrives ? groups * threads : groups;
}
// By all threads of a group; one of them speaks for it.
EADEM_DEVICE void group_arrive(uint32_t barrier, bool speaks) {
  if (kEveryThreadArrives || speaks) barrier_arrive(barrier);
}

// Waits until the phase of that parity is over: by polling, where a late wake-up costs more than issue slots.
EADEM_DEVICE void barrier_poll(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again;}" ::"r"(
          barrier),
      "r"(parity)
      : "memory");
}
// The same, asleep. The hint lets the thread sleep: a polling one takes issue slots.
EADEM_DEVICE void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, %2; @!done bra again;}" ::"r"(
          barrier),
      "r"(parity), "r"(0x989680)
      : "memory");
}

// ---- Copies by the TMA unit -----------------------------------------------------------------------------------------

// bytes: a multiple of 16; both addresses 16-byte aligned.
EADEM_DEVICE void bulk_load(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
EADEM_DEVICE void tensor_load(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
EADEM_DEVICE void tensor_load(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
// Stores and commits one box.
EADEM_DEVICE void tensor_store(const CUtensorMap* map, uint32_t from, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
      "cp.async.bulk.commit_group;" ::"l"(map),
      "r"(x), "r"(y), "r"(from)
      : "memory");
}
// Waits until all but kPending of this thread's stores have read shared memory.
template <int kPending>
EADEM_DEVICE void tensor_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
EADEM_DEVICE void prefetch_map(const CUtensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map)); }
// What this thread wrote to shared memory may be read by bulk copies.
EADEM_DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- Threads, clusters, grids ---------------------------------------------------------------------------------------

EADEM_DEVICE void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
EADEM_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
EADEM_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
EADEM_DEVICE uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
EADEM_DEVICE uint32_t remote_address(uint32_t address, uint32_t rank) {
  uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}
template <int kRegisters>
EADEM_DEVICE void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
EADEM_DEVICE void registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
// Programmatic dependent launch: the next kernel may start; wait until the one before is over and its writes are seen.
EADEM_DEVICE void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }
EADEM_DEVICE void wait_for_prerequisites() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The next integer of a counter in device memory: who takes which piece of work, never a sum.
EADEM_DEVICE int next_ticket(int* counter) {
  int ticket;
  asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(counter) : "memory");
  return ticket;
}

EADEM_DEVICE float4 shared_load(uint32_t address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address));
  return v;
}
EADEM_DEVICE float2 shared_load_pair(uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address));
  return v;
}
EADEM_DEVICE float4 cluster_load(uint32_t address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address));
  return v;
}
EADEM_DEVICE void shared_store(uint32_t address, float x, float y, float z, float w) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}
EADEM_DEVICE void shared_store(uint32_t address, uint32_t word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}
EADEM_DEVICE void shared_store(uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

// ---- Warpgroup MMA --------------------------------------------------------------------------------------------------

EADEM_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
EADEM_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
EADEM_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps reads and writes of an accumulator on their side of this line.
template <int kCount>
EADEM_DEVICE void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// A matrix in shared memory, 128-byte swizzle, 1,024 bytes from eight rows to the next eight: the upper word of its
// descriptor is a constant, the lower one is (address >> 4) | stride field << 16. The field is 1 for matrices whose
// rows run along k; where rows run along n (V of attention) it is the distance of one tile of 64 columns to the next,
// >> 4.
EADEM_DEVICE uint64_t matrix_descriptor(uint32_t low) {
  uint64_t d;
  asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(low), "n"(0x40000040));
  return d;
}

// The operand lists of d[kColumns / 2], 24 to 128 registers.
#define EADEM_PTX_24 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23"
#define EADEM_PTX_32 EADEM_PTX_24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define EADEM_PTX_48 EADEM_PTX_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define EADEM_PTX_64 EADEM_PTX_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define EADEM_PTX_96                                                 \
  EADEM_PTX_64                                                       \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define EADEM_PTX_128                                                            \
  EADEM_PTX_96                                                                   \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define EADEM_D8(d, i)                                                                                              \
  "+f"((d)[i]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3]), "+f"((d)[(i) + 4]), "+f"((d)[(i) + 5]), \
      "+f"((d)[(i) + 6]), "+f"((d)[(i) + 7])
#define EADEM_D24(d) EADEM_D8(d, 0), EADEM_D8(d, 8), EADEM_D8(d, 16)
#define EADEM_D32(d) EADEM_D24(d), EADEM_D8(d, 24)
#define EADEM_D48(d) EADEM_D32(d), EADEM_D8(d, 32), EADEM_D8(d, 40)
#define EADEM_D64(d) EADEM_D48(d), EADEM_D8(d, 48), EADEM_D8(d, 56)
#define EADEM_D96(d) EADEM_D64(d), EADEM_D8(d, 64), EADEM_D8(d, 72), EADEM_D8(d, 80), EADEM_D8(d, 88)
#define EADEM_D128(d) EADEM_D96(d), EADEM_D8(d, 96), EADEM_D8(d, 104), EADEM_D8(d, 112), EADEM_D8(d, 120)

// d[64][kColumns] = a[64][16] b[kColumns][16]^T + (accumulate ? d : 0): register r of a thread holds row
// 16 * warp + lane / 4 + 8 * (r / 2 % 2), column r / 4 * 8 + lane % 4 * 2 + r % 2.
template <int kColumns>
struct Wgmma;

#define EADEM_WGMMA_SHARED(columns, registers, a, b, p)                                                          \
  static EADEM_DEVICE void shared(float (&d)[registers], uint64_t a_matrix, uint64_t b_matrix, int accumulate) { \
    asm volatile("{.reg .pred p; setp.ne.b32 p, " p ", 0; wgmma.mma_async.sync.aligned.m64n" #columns            \
                 "k16.f32.bf16.bf16 {" EADEM_PTX_##registers "}, " a ", " b ", p, 1, 1, 0, 0;}"                  \
                 : EADEM_D##registers(d)                                                                         \
                 : "l"(a_matrix), "l"(b_matrix), "r"(accumulate));                                               \
  }
// a in registers (as d, packed in pairs of columns), the rows of b along n; always accumulates.
#define EADEM_WGMMA_REGISTERS(columns, registers, a0, a1, a2, a3, b)                                                 \
  static EADEM_DEVICE void registers_by_rows(float (&d)[registers], const uint32_t* a, uint64_t b_matrix) {          \
    asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n" #columns                    \
                 "k16.f32.bf16.bf16 {" EADEM_PTX_##registers "}, {" a0 "," a1 "," a2 "," a3 "}, " b ", p, 1, 1, 1;}" \
                 : EADEM_D##registers(d)                                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_matrix));                                       \
  }

template <>
struct Wgmma<48> {
  EADEM_WGMMA_SHARED(48, 24, "%24", "%25", "%26")
};
template <>
struct Wgmma<64> {
  EADEM_WGMMA_SHARED(64, 32, "%32", "%33", "%34")
  EADEM_WGMMA_REGISTERS(64, 32, "%32", "%33", "%34", "%35", "%36")
};
template <>
struct Wgmma<96> {
  EADEM_WGMMA_SHARED(96, 48, "%48", "%49", "%50")
};
template <>
struct Wgmma<128> {
  EADEM_WGMMA_SHARED(128, 64, "%64", "%65", "%66")
  EADEM_WGMMA_REGISTERS(128, 64, "%64", "%65", "%66", "%67", "%68")
};
template <>
struct Wgmma<192> {
  EADEM_WGMMA_SHARED(192, 96, "%96", "%97", "%98")
};
template <>
struct Wgmma<256> {
  EADEM_WGMMA_SHARED(256, 128, "%128", "%129", "%130")
  EADEM_WGMMA_REGISTERS(256, 128, "%128", "%129", "%130", "%131", "%132")
};

}  // namespace eadem::kernels::cuda
