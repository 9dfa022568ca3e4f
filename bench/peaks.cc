// The loops behind peaks(): fp32 FMA, bf16 and int8 dot products of AVX-512 and AVX-VNNI, AMX tiles.
#include <cstring>

#include "ceilings.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace eadem::bench {
namespace {

double fma_operations() { return 2.0 * kChains * fma_lanes(); }
uint64_t fma_loop(int64_t steps) { return static_cast<uint64_t>(run_fma(fma_lanes(), steps) != 0.0f); }
bool always() { return true; }

#if defined(__x86_64__)

// A bit of leaf 7: register 0 to 3 is EAX to EDX.
bool leaf7(unsigned subleaf, int which, int bit) {
  unsigned registers[4] = {};
  if (!__get_cpuid_count(7, subleaf, &registers[0], &registers[1], &registers[2], &registers[3])) return false;
  return (registers[which] >> bit & 1u) != 0;
}

bool has_avx512() { return __builtin_cpu_supports("avx512f") != 0; }
bool has_bf16() { return has_avx512() && leaf7(1, 0, 5); }
bool has_vnni() { return has_avx512() && leaf7(0, 2, 11); }
bool has_avx_vnni() { return __builtin_cpu_supports("avx2") != 0 && leaf7(1, 0, 4); }

// Linux gives a process the tiles' 8 KiB of state only when asked.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
bool has_amx_bf16() { return leaf7(0, 3, 24) && leaf7(0, 3, 22) && may_use_tiles(); }
bool has_amx_int8() { return leaf7(0, 3, 24) && leaf7(0, 3, 25) && may_use_tiles(); }

double bf16_operations() { return 2.0 * kChains * 32; }
double vnni_operations() { return 2.0 * kChains * 64; }
double avx_vnni_operations() { return 2.0 * kChains * 32; }

__attribute__((target("avx512f,avx512bf16"))) uint64_t bf16_loop(int64_t steps) {
  __m512 acc[kChains];
  float start = 0.0f;
  for (auto& a : acc) a = _mm512_set1_ps(start += 1.0f);
  const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));  // ones
  const auto y = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3a80));  // 2^-10
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
    for (auto& a : acc) a = _mm512_dpbf16_ps(a, x, y);
    asm volatile("");  // keeps the loop
  }
  __m512 sum = acc[0];
  for (const auto& a : acc) sum = _mm512_add_ps(sum, a);
  return static_cast<uint64_t>(_mm512_cvtss_f32(sum) != 0.0f);
}

__attribute__((target("avx512f,avx512vnni"))) uint64_t vnni_loop(int64_t steps) {
  __m512i acc[kChains];
  int start = 0;
  for (auto& a : acc) a = _mm512_set1_epi32(++start);
  const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-5);
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
    for (auto& a : acc) a = _mm512_dpbusd_epi32(a, x, y);
    asm volatile("");  // keeps the loop
  }
  __m512i sum = acc[0];
  for (const auto& a : acc) sum = _mm512_xor_si512(sum, a);
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, sum);
  return lanes[0];
}

__attribute__((target("avx2,avxvnni"))) uint64_t avx_vnni_loop(int64_t steps) {
  __m256i acc[kChains / 2];  // 16 registers: eight chains, twice a step
  int start = 0;
  for (auto& a : acc) a = _mm256_set1_epi32(++start);
  const __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-5);
  for (int64_t i = 0; i < 2 * steps; ++i) {
#pragma GCC unroll 16
    for (auto& a : acc) a = _mm256_dpbusd_avx_epi32(a, x, y);
    asm volatile("");  // keeps the loop
  }
  __m256i sum = acc[0];
  for (const auto& a : acc) sum = _mm256_xor_si256(sum, a);
  return static_cast<uint64_t>(_mm256_extract_epi64(sum, 0));
}

// Eight tiles of 16 rows of 64 bytes. Static, and loaded by an instruction that names all 64 bytes: g++ 12's
// _tile_loadconfig names eight of them, so that the stores of a local struct's rows and columns are dropped.
struct TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);
alignas(64) const TileShapes kTiles;

// Two tiles by two, as a kernel would hold them: four accumulators, each used every fourth instruction.
constexpr int kTileProducts = 4;
double tile_bf16_operations() { return 2.0 * kTileProducts * 16 * 16 * 32; }
double tile_int8_operations() { return 2.0 * kTileProducts * 16 * 16 * 64; }

alignas(64) thread_local uint32_t tile_out[16 * 16];

__attribute__((target("amx-tile"))) void begin_tiles(uint32_t pattern) {
  alignas(64) static thread_local uint32_t in[16 * 16];
  for (auto& x : in) x = pattern;
  asm volatile("ldtilecfg %0" : : "m"(*reinterpret_cast<const char (*)[64]>(&kTiles)));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, in, 64);
  _tile_loadd(5, in, 64);
  _tile_loadd(6, in, 64);
  _tile_loadd(7, in, 64);
}

__attribute__((target("amx-tile"))) uint64_t end_tiles() {
  uint64_t sum = 0;
  _tile_stored(0, tile_out, 64);
  sum += tile_out[0];
  _tile_stored(1, tile_out, 64);
  sum += tile_out[1];
  _tile_stored(2, tile_out, 64);
  sum += tile_out[2];
  _tile_stored(3, tile_out, 64);
  sum += tile_out[3];
  _tile_release();
  return sum;
}

__attribute__((target("amx-tile,amx-bf16"))) uint64_t tile_bf16_loop(int64_t steps) {
  begin_tiles(0x3c003c00);  // pairs of 2^-7
  for (int64_t i = 0; i < steps; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  return end_tiles();
}

__attribute__((target("amx-tile,amx-int8"))) uint64_t tile_int8_loop(int64_t steps) {
  begin_tiles(0x01020301);
  for (int64_t i = 0; i < steps; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  return end_tiles();
}

constexpr Peak kPeaks[] = {
    {"fma_fp32", "FLOP", always, fma_operations, fma_loop},
    {"vdpbf16ps", "FLOP", has_bf16, bf16_operations, bf16_loop},
    {"vpdpbusd", "OP", has_vnni, vnni_operations, vnni_loop},
    {"avx_vnni", "OP", has_avx_vnni, avx_vnni_operations, avx_vnni_loop},
    {"amx_bf16", "FLOP", has_amx_bf16, tile_bf16_operations, tile_bf16_loop},
    {"amx_int8", "OP", has_amx_int8, tile_int8_operations, tile_int8_loop},
};

#else

constexpr Peak kPeaks[] = {{"fma_fp32", "FLOP", always, fma_operations, fma_loop}};

#endif

}  // namespace

std::span<const Peak> peaks() { return kPeaks; }

}  // namespace eadem::bench
