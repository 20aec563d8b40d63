// A growing array of plain values, without a C++ run-time library.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <pthread.h>
#include <type_traits>

namespace tapeback::client {

/// Lives as long as the process: its memory is not freed by itself, because threads may still be inside a
/// call when exit() runs destructors. Not copied. Allocation failure is reported, never thrown.
template <typename T>
class Array {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
  constexpr Array() = default;
  Array(const Array &) = delete;
  Array &operator=(const Array &) = delete;

  [[nodiscard]] bool push(const T &value) {
    if (used == capacity) {
      size_t wanted = capacity ? capacity * 2 : 8;
      void *grown = realloc(items, wanted * sizeof(T));
      if (!grown)
        return false;
      items = static_cast<T *>(grown);
      capacity = wanted;
    }
    items[used++] = value;
    return true;
  }
  /// Order is kept.
  void erase(size_t index) {
    for (size_t i = index + 1; i < used; ++i)
      items[i - 1] = items[i];
    --used;
  }
  void clear() { used = 0; }
  void truncate(size_t count) { used = count < used ? count : used; }
  /// Gives its memory back. Only for owners that know that nobody else is inside.
  void release() {
    free(items);
    items = nullptr;
    used = capacity = 0;
  }
  size_t size() const { return used; }
  T &operator[](size_t index) { return items[index]; }
  const T &operator[](size_t index) const { return items[index]; }
  T *begin() { return items; }
  T *end() { return items + used; }
  const T *begin() const { return items; }
  const T *end() const { return items + used; }

private:
  T *items = nullptr;
  size_t used = 0, capacity = 0;
};

/// A mutex or a device's lock, held for a scope.
template <typename Lock>
class Locked {
public:
  explicit Locked(Lock &lock) : held(lock) {
    if constexpr (std::is_same_v<Lock, pthread_mutex_t>)
      pthread_mutex_lock(&held);
    else
      held.lock();
  }
  ~Locked() {
    if constexpr (std::is_same_v<Lock, pthread_mutex_t>)
      pthread_mutex_unlock(&held);
    else
      held.unlock();
  }
  Locked(const Locked &) = delete;
  Locked &operator=(const Locked &) = delete;

private:
  Lock &held;
};

} // namespace tapeback::client
