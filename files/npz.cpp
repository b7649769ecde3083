#include <mailgrad/files/npz.hpp>

#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <zip.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <set>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::string_view suffix = ".npy";

/// The bytes of an entry.
class bytes_of_entry final : public npy_bytes {
public:
  bytes_of_entry(zip_t* archive, std::uint64_t entry, std::uint64_t size, const std::filesystem::path& file,
                 std::string who)
      : file_(file), who_(std::move(who)), left_(size), entry_(zip_fopen_index(archive, entry, 0)) {
    if (entry_ == nullptr) fail(zip_strerror(archive));
  }
  ~bytes_of_entry() override { zip_fclose(entry_); }
  bytes_of_entry(const bytes_of_entry&) = delete;
  bytes_of_entry& operator=(const bytes_of_entry&) = delete;

  std::size_t read(std::span<char> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      const zip_int64_t got = zip_fread(entry_, to.data() + done, to.size() - done);
      if (got < 0) fail(zip_file_strerror(entry_)); // such as for a wrong checksum at the end
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    left_ -= std::min<std::uint64_t>(left_, done);
    return done;
  }
  std::uint64_t left() const override { return left_; }
  bool is_packed() const override { return false; } // the archive states the size, which has been checked

private:
  [[noreturn]] void fail(std::string_view what) const {
    throw_malformed(file_, fmt::format("{}: {}", who_, what));
  }

  std::filesystem::path file_;
  std::string who_;
  std::uint64_t left_;
  zip_file_t* entry_;
};

std::string array_called(std::string_view name) { return "array " + in_quotes(name); }

} // namespace

struct npz_file::archive {
  explicit archive(const std::filesystem::path& path) {
    std::error_code gone;
    const auto status = std::filesystem::status(path, gone);
    if (!std::filesystem::exists(status)) throw_unreadable(path, gone ? gone.value() : ENOENT);
    if (!std::filesystem::is_regular_file(status))
      throw_malformed(path, "expected a file, found something else");
    bytes = std::filesystem::file_size(path);
    int code = 0;
    handle = zip_open(path.c_str(), ZIP_RDONLY, &code);
    if (handle != nullptr) return;
    zip_error_t why;
    zip_error_init_with_code(&why, code);
    const std::string text =
        fmt::format("expected a zip archive of numpy, found none: {}", zip_error_strerror(&why));
    zip_error_fini(&why);
    throw_malformed(path, text);
  }
  ~archive() {
    if (handle != nullptr) zip_discard(handle);
  }
  archive(const archive&) = delete;
  archive& operator=(const archive&) = delete;

  zip_t* handle = nullptr;
  std::uint64_t bytes = 0; ///< of the file
};

npz_file::~npz_file() = default;
npz_file::npz_file(npz_file&&) noexcept = default;

npz_file::npz_file(const std::filesystem::path& path, const std::vector<std::string>& wanted)
    : path_(path), archive_(std::make_unique<archive>(path)) {
  std::set<std::string, std::less<>> names;
  const zip_int64_t count = zip_get_num_entries(archive_->handle, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(archive_->handle, static_cast<zip_uint64_t>(i), 0);
    if (name != nullptr && std::string_view(name).ends_with('/')) continue; // a folder
    const std::string_view entry = name == nullptr ? "" : name;
    const std::string_view stem = entry.substr(0, entry.rfind('.'));
    try {
      arrays_.push_back(checked(static_cast<std::uint64_t>(i)));
    } catch (const file_error&) {
      if (wanted.empty() || std::ranges::find(wanted, stem) != wanted.end()) throw;
      passed_over_.emplace_back(stem);
      continue;
    }
    if (!names.insert(arrays_.back().name).second)
      throw_malformed(path_, array_called(arrays_.back().name) + " comes twice");
  }
}

npz_array npz_file::checked(std::uint64_t entry) const {
  zip_stat_t status;
  zip_stat_init(&status);
  constexpr zip_uint64_t needed =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive_->handle, entry, 0, &status) != 0 || (status.valid & needed) != needed)
    throw_malformed(path_, fmt::format("entry {} is damaged", entry));
  const std::string_view name = status.name;
  if (!name.ends_with(suffix))
    throw_malformed(path_, fmt::format("expected arrays of numpy, found the entry {}", in_quotes(name)));
  npz_array a{std::string(name.substr(0, name.size() - suffix.size())), {}, entry, 0};
  const std::string who = array_called(a.name);
  const bool stored = status.comp_method == ZIP_CM_STORE;
  if ((!stored && status.comp_method != ZIP_CM_DEFLATE) || status.encryption_method != ZIP_EM_NONE)
    throw_malformed(path_, who + " is packed or encrypted in a way that numpy does not use");
  if (status.comp_size > archive_->bytes ||
      (stored ? status.size != status.comp_size : status.size / best_deflate_ratio > status.comp_size))
    throw_malformed(path_, fmt::format("{} is said to have {} bytes, packed {}, and the file has {}", who,
                                       status.size, status.comp_size, archive_->bytes));
  a.bytes = status.size;
  a.header = open(a).header();
  return a;
}

npy_file npz_file::open(const npz_array& what) const {
  return {path_, what.name,
          std::make_unique<bytes_of_entry>(archive_->handle, what.entry, what.bytes, path_,
                                           array_called(what.name))};
}

bool npz_file::is_npz(const std::filesystem::path& path) {
  std::array<char, 4> first{};
  std::ifstream file(path, std::ios::binary);
  return file.read(first.data(), first.size()) && std::string_view(first.data(), 4) == "PK\3\4";
}

const npz_array* npz_file::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(arrays_, name, &npz_array::name);
  return found == arrays_.end() ? nullptr : &*found;
}

template <class To>
void npz_file::read_as(const npz_array& what, std::span<To> to) {
  if (to.size() != what.header.dims.size())
    throw std::invalid_argument(fmt::format("npz: array '{}' has {} numbers, and there is room for {}",
                                            what.name, what.header.dims.size(), to.size()));
  open(what).read(to);
}

void npz_file::read(const npz_array& what, std::span<float> to) { read_as(what, to); }
void npz_file::read(const npz_array& what, std::span<std::int32_t> to) { read_as(what, to); }
void npz_file::read(const npz_array& what, std::span<std::uint8_t> to) { read_as(what, to); }

} // namespace mailgrad
