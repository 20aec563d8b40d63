// XXH3-128 in the form for long inputs (xxHash's specification, seed 0), for processors with AVX2. LLVM's own
// is scalar on x86. Short inputs, and other processors, are left to it.
#include "format/ContentId.h"

#include "llvm/Support/xxhash.h"
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tapeback {

#if defined(__x86_64__)
namespace {

constexpr size_t stripeBytes = 64, secretBytes = 192, stripesPerBlock = (secretBytes - stripeBytes) / 8;
constexpr size_t blockBytesOfHash = stripeBytes * stripesPerBlock;
constexpr uint64_t prime32[] = {0x9e3779b1, 0x85ebca77, 0xc2b2ae3d};
constexpr uint64_t prime64[] = {0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9,
                                0x85ebca77c2b2ae63, 0x27d4eb2f165667c5};

alignas(64) constexpr uint8_t secret[secretBytes] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

uint64_t wordAt(const uint8_t *bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, 8);
  return word;
}

/// The eight sums, each 64 bits, in two registers.
struct Sums {
  __m256i half[2];
};

__attribute__((target("avx2"), always_inline)) inline void accumulate(Sums &sums, const uint8_t *stripe,
                                                                      const uint8_t *key) {
  for (unsigned i = 0; i < 2; ++i) {
    const __m256i data = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(stripe) + i);
    const __m256i mixed =
        _mm256_xor_si256(data, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(key) + i));
    const __m256i product = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
    const __m256i swapped = _mm256_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
    sums.half[i] = _mm256_add_epi64(_mm256_add_epi64(sums.half[i], swapped), product);
  }
}

__attribute__((target("avx2"), always_inline)) inline void scramble(Sums &sums, const uint8_t *key) {
  const __m256i prime = _mm256_set1_epi32(static_cast<int>(prime32[0]));
  for (unsigned i = 0; i < 2; ++i) {
    const __m256i sum = sums.half[i];
    const __m256i mixed = _mm256_xor_si256(_mm256_xor_si256(sum, _mm256_srli_epi64(sum, 47)),
                                           _mm256_loadu_si256(reinterpret_cast<const __m256i *>(key) + i));
    const __m256i low = _mm256_mul_epu32(mixed, prime);
    const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);
    sums.half[i] = _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
  }
}

uint64_t merge(const uint64_t *sums, const uint8_t *key, uint64_t start) {
  uint64_t hash = start;
  for (unsigned i = 0; i < 8; i += 2) {
    const auto product = static_cast<unsigned __int128>(sums[i] ^ wordAt(key + 8 * i)) *
                         (sums[i + 1] ^ wordAt(key + 8 * i + 8));
    hash += static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  hash ^= hash >> 37;
  hash *= 0x165667919e3779f9;
  return hash ^ (hash >> 32);
}

/// More than 240 bytes.
__attribute__((target("avx2"))) BlobId idOfLong(llvm::ArrayRef<uint8_t> content) {
  alignas(32) uint64_t words[8] = {prime32[2], prime64[0], prime64[1], prime64[2],
                                   prime64[3], prime32[1], prime64[4], prime32[0]};
  Sums sums = {{_mm256_load_si256(reinterpret_cast<const __m256i *>(words)),
                _mm256_load_si256(reinterpret_cast<const __m256i *>(words + 4))}};
  const uint8_t *const end = content.end();
  const size_t blocks = (content.size() - 1) / blockBytesOfHash;
  const uint8_t *at = content.data();
  for (size_t block = 0; block < blocks; ++block, at += blockBytesOfHash) {
    for (size_t stripe = 0; stripe < stripesPerBlock; ++stripe) {
      _mm_prefetch(at + stripe * stripeBytes + 512, _MM_HINT_T0);
      accumulate(sums, at + stripe * stripeBytes, secret + 8 * stripe);
    }
    scramble(sums, secret + secretBytes - stripeBytes);
  }
  const size_t stripes = static_cast<size_t>(end - 1 - at) / stripeBytes;
  for (size_t stripe = 0; stripe < stripes; ++stripe)
    accumulate(sums, at + stripe * stripeBytes, secret + 8 * stripe);
  accumulate(sums, end - stripeBytes, secret + secretBytes - stripeBytes - 7);
  _mm256_store_si256(reinterpret_cast<__m256i *>(words), sums.half[0]);
  _mm256_store_si256(reinterpret_cast<__m256i *>(words + 4), sums.half[1]);
  const uint64_t bytes = content.size();
  return {merge(words, secret + secretBytes - stripeBytes - 11, ~(bytes * prime64[1])),
          merge(words, secret + 11, bytes * prime64[0])};
}

} // namespace
#endif

BlobId contentId(llvm::ArrayRef<uint8_t> content) {
#if defined(__x86_64__)
  if (content.size() > 240 && __builtin_cpu_supports("avx2"))
    return idOfLong(content);
#endif
  const llvm::XXH128_hash_t hash = llvm::xxh3_128bits(content);
  return {hash.high64, hash.low64};
}

} // namespace tapeback
