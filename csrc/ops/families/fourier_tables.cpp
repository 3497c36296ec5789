#include "ops/families/fourier_tables.h"

#include <ATen/ATen.h>

#include <complex>
#include <list>
#include <mutex>
#include <numbers>
#include <tuple>

#include "memory/caching_allocator.h"
#include "runtime/stream.h"

namespace npu::ops::fourier {

namespace {

constexpr int64_t kLargestFactor = 64;   // of several primes
constexpr int64_t kLargestPrime = 1024;  // beyond it a matrix would take more than 16 MiB
constexpr int64_t kLongest = 1 << 14;
constexpr size_t kKeptBytes = size_t{64} << 20;

enum class Kind : uint8_t { matrices, twiddles, chirp };
using Key = std::tuple<int, Kind, at::ScalarType, int64_t, int64_t, bool, bool, bool>;  // the first is the card

struct Entry {
  Key key;
  std::vector<Tensor> tensors;
};

// The tables that were used last are at the front. Those beyond kKeptBytes are given back.
class Cache {
 public:
  // Nothing that may wait runs under the lock: a thread that has Python's lock may wait for it.
  template <class F>
  std::vector<Tensor> get(const Key& key, F make) {
    if (auto found = find(key); !found.empty()) return found;
    auto made = make();
    std::vector<Entry> dropped;  // freed after the lock is given up
    std::lock_guard lock(mutex_);
    for (const auto& t : made) bytes_ += t.nbytes();
    entries_.push_front({key, made});
    while (bytes_ > kKeptBytes && entries_.size() > 1) {
      for (const auto& t : entries_.back().tensors) bytes_ -= t.nbytes();
      dropped.push_back(std::move(entries_.back()));
      entries_.pop_back();
    }
    return made;
  }

 private:
  std::vector<Tensor> find(const Key& key) {
    std::vector<Tensor> tensors;
    {
      std::lock_guard lock(mutex_);
      for (auto each = entries_.begin(); each != entries_.end(); ++each) {
        if (each->key != key) continue;
        entries_.splice(entries_.begin(), entries_, each);
        tensors = entries_.front().tensors;
        break;
      }
    }
    for (const auto& t : tensors) caching_allocator::record_stream(t.storage().data_ptr(), current_stream());
    return tensors;
  }

  std::mutex mutex_;
  std::list<Entry> entries_;
  size_t bytes_ = 0;
};

Cache& cache() {
  static auto* all = new Cache;  // never destroyed: the card may be gone by then
  return *all;
}

Key key_of(Kind kind, at::ScalarType dtype, int64_t a, int64_t b, bool forward, bool real_in = false,
           bool real_out = false) {
  return {current_device(), kind, dtype, a, b, forward, real_in, real_out};
}

Tensor to_card(const Tensor& host, at::ScalarType dtype) {
  return host.to(dtype).to(c10::Device(c10::DeviceType::PrivateUse1, current_device()));
}

std::vector<int64_t> primes(int64_t n) {
  std::vector<int64_t> found;
  for (int64_t p = 2; p * p <= n; p++)
    for (; n % p == 0; n /= p) found.push_back(p);
  if (n > 1) found.push_back(n);
  return found;
}

// exp(-+ 2 pi i * j / n) for every j.
std::vector<std::complex<double>> roots(int64_t n, bool forward) {
  std::vector<std::complex<double>> all(n);
  for (int64_t j = 0; j < n; j++)
    all[j] = std::polar(1.0, (forward ? -2 : 2) * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n));
  return all;
}

// k1 + f1 * k2 + ... for the matrix whose number in memory is k1 * f2 * f3 ... + k2 * f3 ... + ...
int64_t output_of(int64_t number, const std::vector<int64_t>& before) {
  int64_t output = 0, weight = 1;
  for (const int64_t f : before) weight *= f;
  for (size_t s = before.size(); s-- > 0;) {
    weight /= before[s];
    output += number % before[s] * weight;
    number /= before[s];
  }
  return output;
}

struct Product {
  std::vector<int64_t> before;  // factors of the products that come first
  int64_t factor, rows;
  int in, out;  // parts of a number
};

Tensor host_matrices(const Product& p, bool forward) {
  int64_t groups = 1;
  for (const int64_t f : p.before) groups *= f;
  const auto root = roots(groups * p.factor, forward);
  auto all = at::empty({groups, p.rows * p.out, p.in * p.factor}, at::kDouble);
  double* to = all.data_ptr<double>();
  for (int64_t group = 0; group < groups; group++) {
    const int64_t first = output_of(group, p.before);
    for (int64_t k = 0; k < p.rows; k++)
      for (int part_out = 0; part_out < p.out; part_out++)
        for (int part_in = 0; part_in < p.in; part_in++)
          for (int64_t j = 0; j < p.factor; j++) {
            const auto w = root[j * (first + groups * k) % (groups * p.factor)];
            *to++ = part_in == part_out ? w.real() : part_in ? -w.imag() : w.imag();
          }
  }
  return all;
}

}  // namespace

bool has_large_prime(int64_t length) { return length > 1 && primes(length).back() > kLargestPrime; }

bool is_direct(int64_t length) { return length <= kLongest && !has_large_prime(length); }

std::pair<int64_t, int64_t> halves(int64_t length) {
  int64_t p = 1, q = 1;
  const auto all = primes(length);
  for (auto prime = all.rbegin(); prime != all.rend(); ++prime) (p < q ? p : q) *= *prime;
  return {p, q};
}

std::vector<int64_t> factors(int64_t length) {
  std::vector<int64_t> all;
  auto found = primes(length);
  for (auto prime = found.rbegin(); prime != found.rend(); ++prime) {
    const auto room = std::min_element(all.begin(), all.end());
    if (room != all.end() && *room * *prime <= kLargestFactor)
      *room *= *prime;
    else
      all.push_back(*prime);
  }
  std::sort(all.rbegin(), all.rend());
  if (all.empty()) all.push_back(1);
  return all;
}

std::vector<Tensor> matrices(const Line& line, at::ScalarType dtype) {
  const auto key = key_of(Kind::matrices, dtype, line.length, line.wanted, line.forward, line.real_in, line.real_out);
  return cache().get(key, [&] {
    std::vector<Tensor> all;
    const auto every = factors(line.length);
    Product p{};
    int64_t groups = 1;
    for (size_t s = 0; s < every.size(); s++) {
      const bool last = s + 1 == every.size();
      p.factor = every[s];
      p.rows = last ? (line.wanted + groups - 1) / groups : p.factor;
      p.in = s == 0 && line.real_in ? 1 : 2;
      p.out = last && line.real_out ? 1 : 2;
      all.push_back(to_card(host_matrices(p, line.forward), dtype));
      p.before.push_back(p.factor);
      groups *= p.factor;
    }
    return all;
  });
}

Tensor twiddles(int64_t p, int64_t q, bool forward, at::ScalarType dtype) {
  return cache().get(key_of(Kind::twiddles, dtype, p, q, forward), [&] {
    const auto root = roots(p * q, forward);
    auto all = at::empty({p, q}, at::kComplexDouble);
    auto* to = all.data_ptr<c10::complex<double>>();
    for (int64_t j = 0; j < p; j++)
      for (int64_t k = 0; k < q; k++) *to++ = root[j * k];
    return std::vector<Tensor>{to_card(all, dtype)};
  })[0];
}

Tensor chirp(int64_t length, bool forward, at::ScalarType dtype) {
  return cache().get(key_of(Kind::chirp, dtype, length, 0, forward), [&] {
    const auto root = roots(2 * length, forward);
    auto all = at::empty({length}, at::kComplexDouble);
    auto* to = all.data_ptr<c10::complex<double>>();
    for (int64_t j = 0; j < length; j++) to[j] = root[j * j % (2 * length)];
    return std::vector<Tensor>{to_card(all, dtype)};
  })[0];
}

}  // namespace npu::ops::fourier
