#include <mailgrad/net/memory/shared_heap.hpp>

#include <mailgrad/net/ending.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

namespace mailgrad::net {

namespace {

constexpr std::size_t page_bytes = 4 << 10;
/// What lies behind a block and may be read with it, so that a kernel may load a whole last vector.
constexpr std::size_t read_behind = block::alignment;
constexpr std::size_t first_bytes = 1 << 20;

std::size_t room_of(std::size_t bytes) noexcept {
  return (bytes + read_behind + page_bytes - 1) / page_bytes * page_bytes;
}

/// The pages stay in the memory of their owner, and come back when somebody looks.
void drop_from_view(byte_view part) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = address - address % page;
  (void)madvise(reinterpret_cast<void*>(begin), address + part.size() - begin, MADV_DONTNEED);
}

} // namespace

/// The memory, and which ranges of it are free.
class shared_heap::pages : public std::enable_shared_from_this<pages> {
public:
  pages() : memory_(memfd_create("mailgrad blocks", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (!memory_) fail_in_system("shared memory: this system has none for two processes; use HOST:PORT");
    if (fcntl(memory_.number(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
      fail_in_system("shared memory: it cannot be sealed");
    // Another descriptor of the same memory, by which it can be read and not written.
    for_peers_ =
        descriptor(open(fmt::format("/proc/self/fd/{}", memory_.number()).c_str(), O_RDONLY | O_CLOEXEC));
    if (!for_peers_) fail_in_system("shared memory: it cannot be opened for reading");
  }

  /// A range as it is mapped here, and given back when the last block of it is gone.
  struct range {
    std::shared_ptr<pages> of;
    std::byte* at = nullptr;
    std::size_t offset = 0, room = 0;

    range(std::shared_ptr<pages> p, std::byte* a, std::size_t o, std::size_t r)
        : of(std::move(p)), at(a), offset(o), room(r) {}
    range(const range&) = delete;
    range& operator=(const range&) = delete;
    ~range() { of->free(*this); }
  };

  std::shared_ptr<range> take(std::size_t size) {
    const std::size_t room = room_of(size);
    const std::lock_guard lock(mutex_);
    const auto known = free_.find(room);
    const bool is_used = known != free_.end();
    const std::size_t offset = is_used ? known->second : grown(room);
    void* const at =
        mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.number(), static_cast<off_t>(offset));
    if (at == MAP_FAILED) fail_in_system("shared memory: it cannot be mapped");
    if (is_used) {
      free_.erase(known);
      std::memset(at, 0, room);
    }
    const auto* const begin = static_cast<std::byte*>(at);
    taken_.insert_or_assign(begin, std::pair{offset, size});
    return std::make_shared<range>(shared_from_this(), static_cast<std::byte*>(at), offset, room);
  }

  /// The block in which these bytes lie, if it is of this heap.
  std::optional<loan> find(byte_view part) const {
    const std::lock_guard lock(mutex_);
    auto after = taken_.upper_bound(part.data());
    if (after == taken_.begin()) return std::nullopt;
    const auto& [at, place] = *--after;
    const auto begin = static_cast<std::size_t>(part.data() - at);
    if (begin > place.second || part.size() > place.second - begin) return std::nullopt;
    return loan{place.first, place.second, begin, part.size()};
  }

  int for_peers() const noexcept { return for_peers_.number(); }

private:
  /// Forgets where the range was before the system may map another one there.
  void free(const range& r) noexcept {
    {
      const std::lock_guard lock(mutex_);
      taken_.erase(r.at);
      try {
        free_.emplace(r.room, r.offset);
      } catch (const std::bad_alloc&) { // and so it stays unused
      }
    }
    munmap(r.at, r.room);
  }

  /// Makes the memory longer where it must be: each time twice as long, so that peers map it seldom.
  std::size_t grown(std::size_t room) {
    const std::size_t offset = used_, needed = used_ + room;
    if (needed > bytes_) {
      const std::size_t longer = std::max({needed, 2 * bytes_, first_bytes});
      if (ftruncate(memory_.number(), static_cast<off_t>(longer)) != 0)
        fail_in_system("shared memory: there is no more of it");
      bytes_ = longer;
    }
    used_ = needed;
    return offset;
  }

  descriptor memory_, for_peers_;
  mutable std::mutex mutex_; ///< guards the members below
  std::size_t bytes_ = 0, used_ = 0;
  std::multimap<std::size_t, std::size_t> free_; ///< offsets by room
  /// By address: offset and bytes.
  std::map<const std::byte*, std::pair<std::size_t, std::size_t>> taken_;
};

/// How much is lent.
class shared_heap::loans final : public admission {
public:
  explicit loans(std::size_t most) : most_(most) {}

  /// Null if it is too much.
  units take(std::uint64_t block, std::size_t size) {
    {
      const std::lock_guard lock(mutex_);
      if (!taken_.contains(block) && taken_.size() >= 2 && bytes_ + size > most_) return nullptr;
      if (taken_[block]++ == 0) bytes_ += size;
    }
    return units_of([this, block, size] {
      if (--taken_.at(block) > 0) return;
      taken_.erase(block);
      bytes_ -= size;
    });
  }

private:
  void settle(calls&) override {} // who gets nothing moves its bytes, and does not wait

  const std::size_t most_;
  std::map<std::uint64_t, std::size_t> taken_; ///< by block, how often it is lent
  std::size_t bytes_ = 0;                      ///< each block once
};

shared_heap::shared_heap(const heap_options& options)
    : options_(options), pages_(std::make_shared<pages>()),
      loans_(std::make_shared<loans>(options.most_lent)) {
  if (options.kept && options.kept->count() < 0)
    throw std::invalid_argument("shared memory: expected a time of 0 or more, found a negative one");
}

shared_heap::~shared_heap() = default;

block shared_heap::allocate(std::size_t size) {
  if (size == 0) return {};
  const auto range = pages_->take(size);
  return block::in_memory_of(range, {range->at, size});
}

int shared_heap::memory() const noexcept { return pages_->for_peers(); }

std::optional<lending> shared_heap::lend(byte_view part) {
  const auto found = part.empty() ? std::nullopt : pages_->find(part);
  if (!found) return std::nullopt;
  let_go_of_overdue();
  auto units = loans_->take(found->block, found->block_bytes);
  return units ? std::optional(lending{*found, std::move(units)}) : std::nullopt;
}

void shared_heap::abandon(lending l, std::shared_ptr<const void> keeps) {
  let_go_of_overdue();
  using moment = std::chrono::steady_clock::time_point;
  const moment until = options_.kept ? std::chrono::steady_clock::now() + *options_.kept : moment::max();
  const std::lock_guard lock(mutex_);
  abandoned_.push_back({until, std::move(keeps), std::move(l)});
}

/// Lets what has been kept for long enough go, without the lock.
void shared_heap::let_go_of_overdue() {
  std::vector<abandoned> old;
  const std::lock_guard lock(mutex_);
  if (abandoned_.empty()) return;
  const auto now = std::chrono::steady_clock::now();
  const auto first = std::partition(abandoned_.begin(), abandoned_.end(),
                                    [now](const abandoned& a) { return a.until > now; });
  old.assign(std::make_move_iterator(first), std::make_move_iterator(abandoned_.end()));
  abandoned_.erase(first, abandoned_.end());
}

far_heap::far_heap(descriptor memory, std::shared_ptr<far_pages> pages)
    : memory_(std::move(memory)), pages_(std::move(pages)) {
  const int seals = fcntl(memory_.number(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    throw protocol_error("shared memory: expected blocks that are sealed, found another descriptor");
}

borrowed far_heap::view(const loan& l) {
  const auto fits = [&](std::uint64_t size) {
    return l.block <= size && l.block_bytes <= size - l.block &&
           read_behind <= size - l.block - l.block_bytes;
  };
  if (!mapped_ || !fits(mapped_->size())) {
    struct stat found {};
    if (fstat(memory_.number(), &found) != 0) fail_in_system("shared memory: its length is not known");
    const auto size = static_cast<std::uint64_t>(found.st_size);
    if (!fits(size))
      throw protocol_error("lent: expected a block within {} bytes, found {} bytes at {}", size,
                           l.block_bytes, l.block);
    void* const at = mmap(nullptr, size, PROT_READ, MAP_SHARED, memory_.number(), 0);
    if (at == MAP_FAILED) fail_in_system("shared memory: it cannot be mapped");
    mapped_ = {new byte_view(static_cast<const std::byte*>(at), size), [](const byte_view* v) {
                 munmap(const_cast<std::byte*>(v->data()), v->size());
                 delete v;
               }};
  }
  if (l.block % block::alignment != 0 || l.begin > l.block_bytes || l.bytes > l.block_bytes - l.begin)
    throw protocol_error("lent: expected a part of a block of {} bytes, found {} bytes at {}", l.block_bytes,
                         l.bytes, l.begin);
  const byte_view block = mapped_->subspan(l.block, l.block_bytes);
  if (l.bytes > largest_) {
    pages_->grow(l.bytes - largest_);
    largest_ = l.bytes;
  }
  const byte_view part = block.subspan(l.begin, l.bytes);
  return {block, part, {part.data(), [part, pages = pages_, keeps = mapped_](const void*) {
                          if (pages->are_many()) drop_from_view(part);
                        }}};
}

} // namespace mailgrad::net
