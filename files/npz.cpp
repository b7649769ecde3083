#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npz.hpp>
#include <mailgrad/files/replaced_file.hpp>

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <fstream>
#include <new>
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

std::uint64_t bytes_of_file_at(const std::filesystem::path& path) {
  std::error_code gone;
  const auto status = std::filesystem::status(path, gone);
  if (!std::filesystem::exists(status)) throw_unreadable(path, gone ? gone.value() : ENOENT);
  if (!std::filesystem::is_regular_file(status))
    throw_malformed(path, "expected a file, found something else");
  return std::filesystem::file_size(path);
}

zip_t* opened(const std::filesystem::path& path) {
  int code = 0;
  if (zip_t* const archive = zip_open(path.c_str(), ZIP_RDONLY, &code)) return archive;
  zip_error_t why;
  zip_error_init_with_code(&why, code);
  const std::string text =
      fmt::format("expected a zip archive of numpy, found none: {}", zip_error_strerror(&why));
  zip_error_fini(&why);
  throw_malformed(path, text);
}

/// Lets libzip write into a replaced_file, which libzip's own way of replacing files knows nothing of.
class archive_output {
public:
  explicit archive_output(replaced_file& out) : out_(out) { zip_error_init(&error_); }
  ~archive_output() { zip_error_fini(&error_); }
  archive_output(const archive_output&) = delete;
  archive_output& operator=(const archive_output&) = delete;

  static zip_int64_t command(void* self, void* data, zip_uint64_t length, zip_source_cmd_t what) {
    return static_cast<archive_output*>(self)->run(data, length, what);
  }
  int why() const noexcept { return why_; }

private:
  zip_int64_t run(void* data, zip_uint64_t length, zip_source_cmd_t what);
  zip_int64_t checked(zip_int64_t result);
  zip_int64_t seek(void* data, zip_uint64_t length);

  replaced_file& out_;
  zip_error_t error_;
  int why_ = 0; ///< errno of the first failure
};

zip_int64_t archive_output::checked(zip_int64_t result) {
  if (out_.good()) return result;
  if (why_ == 0) why_ = errno != 0 ? errno : EIO;
  zip_error_set(&error_, ZIP_ER_WRITE, why_);
  return -1;
}

zip_int64_t archive_output::seek(void* data, zip_uint64_t length) {
  auto* to = ZIP_SOURCE_GET_ARGS(zip_source_args_seek_t, data, length, &error_);
  if (to == nullptr) return -1;
  const auto from = to->whence == SEEK_SET   ? std::ios::beg
                    : to->whence == SEEK_CUR ? std::ios::cur
                                             : std::ios::end;
  out_.seekp(to->offset, from);
  return checked(0);
}

zip_int64_t archive_output::run(void* data, zip_uint64_t length, zip_source_cmd_t what) {
  errno = 0;
  switch (what) {
  case ZIP_SOURCE_SUPPORTS:
    return ZIP_SOURCE_SUPPORTS_WRITABLE;
  case ZIP_SOURCE_ERROR:
    return zip_error_to_data(&error_, data, length);
  case ZIP_SOURCE_STAT: {
    auto* status = ZIP_SOURCE_GET_ARGS(zip_stat_t, data, length, &error_);
    if (status == nullptr) return -1;
    zip_stat_init(status);
    status->size = 0;
    status->valid = ZIP_STAT_SIZE;
    return sizeof(zip_stat_t);
  }
  case ZIP_SOURCE_WRITE:
    out_.write_ahead({static_cast<const std::byte*>(data), static_cast<std::size_t>(length)});
    return checked(static_cast<zip_int64_t>(length));
  case ZIP_SOURCE_SEEK_WRITE:
    return seek(data, length);
  case ZIP_SOURCE_TELL_WRITE:
    return checked(out_.tellp());
  default: // what there is to open, read, begin, commit or free is the caller's
    return 0;
  }
}

/// Adds an array, whose bytes must live until the archive is closed.
void add(zip_t* archive, const std::string& name, const std::string& header,
         std::span<const std::byte> numbers) {
  constexpr zip_int64_t first_of_1980 = 315532800; // one file of the same weights is like another
  zip_buffer_fragment_t parts[2] = {
      {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(header.data())), header.size()},
      {reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(numbers.data())), numbers.size()}};
  zip_source_t* source = zip_source_buffer_fragment(archive, parts, numbers.empty() ? 1 : 2, 0);
  if (source == nullptr) throw std::bad_alloc();
  const zip_int64_t entry = zip_file_add(archive, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
  if (entry < 0) {
    zip_source_free(source);
    throw std::invalid_argument(fmt::format("npz: array '{}': {}", name, zip_strerror(archive)));
  }
  const auto index = static_cast<zip_uint64_t>(entry);
  if (zip_set_file_compression(archive, index, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_mtime(archive, index, first_of_1980, 0) != 0)
    throw std::runtime_error(fmt::format("npz: array '{}': {}", name, zip_strerror(archive)));
}

void require_fitting(std::span<const array_to_store> arrays,
                     const std::map<std::string, std::string>& texts) {
  std::set<std::string> names;
  for (const auto& [name, text] : texts) names.insert(name);
  for (const array_to_store& a : arrays) {
    if (!names.insert(a.name).second)
      throw std::invalid_argument(fmt::format("npz: two arrays are called '{}'", a.name));
    if (a.values.size() != a.dims.size())
      throw std::invalid_argument(fmt::format("npz: array '{}' has {} numbers for a shape of {}", a.name,
                                              a.values.size(), to_string(a.dims)));
  }
}

} // namespace

void zip_closer::operator()(zip* archive) const noexcept { zip_discard(archive); }

npz_file::npz_file(const std::filesystem::path& path, const std::vector<std::string>& wanted)
    : path_(path), file_bytes_(bytes_of_file_at(path)), archive_(opened(path)) {
  std::set<std::string, std::less<>> names;
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(archive_.get(), static_cast<zip_uint64_t>(i), 0);
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
  if (zip_stat_index(archive_.get(), entry, 0, &status) != 0 || (status.valid & needed) != needed)
    throw_malformed(path_, fmt::format("entry {} is damaged", entry));
  const std::string_view name = status.name;
  if (!name.ends_with(suffix))
    throw_malformed(path_, fmt::format("expected arrays of numpy, found the entry {}", in_quotes(name)));
  npz_array a{std::string(name.substr(0, name.size() - suffix.size())), {}, entry, 0};
  const std::string who = array_called(a.name);
  const bool stored = status.comp_method == ZIP_CM_STORE;
  if ((!stored && status.comp_method != ZIP_CM_DEFLATE) || status.encryption_method != ZIP_EM_NONE)
    throw_malformed(path_, who + " is packed or encrypted in a way that numpy does not use");
  if (status.comp_size > file_bytes_ ||
      (stored ? status.size != status.comp_size : status.size / best_deflate_ratio > status.comp_size))
    throw_malformed(path_, fmt::format("{} is said to have {} bytes, packed {}, and the file has {}", who,
                                       status.size, status.comp_size, file_bytes_));
  a.bytes = status.size;
  a.header = open(a).header();
  return a;
}

npy_file npz_file::open(const npz_array& what) const {
  return {path_, what.name,
          std::make_unique<bytes_of_entry>(archive_.get(), what.entry, what.bytes, path_,
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

void write_npz(const std::filesystem::path& path, std::span<const array_to_store> arrays,
               const std::map<std::string, std::string>& texts) {
  require_fitting(arrays, texts);
  replaced_file out(path.string());
  if (!out) throw_unwritable(path, errno != 0 ? errno : EIO);
  archive_output output(out);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* target = zip_source_function_create(archive_output::command, &output, &error);
  if (target == nullptr) throw std::bad_alloc();
  std::unique_ptr<zip_t, zip_closer> archive(zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (!archive) {
    zip_source_free(target);
    throw std::runtime_error(fmt::format("npz: {}", zip_error_strerror(&error)));
  }
  std::deque<std::string> headers; // their addresses stay
  for (const array_to_store& a : arrays)
    add(archive.get(), a.name, headers.emplace_back(npy_header_for(npy_number::f32, a.dims)),
        std::as_bytes(a.values));
  for (const auto& [name, text] : texts)
    add(archive.get(), name, headers.emplace_back(npy_header_for(npy_number::u8, {text.size()})),
        std::as_bytes(std::span(text)));
  if (zip_close(archive.get()) != 0) throw_unwritable(path, output.why() != 0 ? output.why() : EIO);
  archive.release(); // zip_close() has freed it
  if (const int why = out.keep_on_disk(); why != 0) throw_unwritable(path, why);
}

} // namespace mailgrad
