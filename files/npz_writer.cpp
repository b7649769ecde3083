#include <mailgrad/files/npz.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/replaced_file.hpp>

#include <fmt/format.h>

#include <zip.h>

#include <cerrno>
#include <deque>
#include <new>
#include <set>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

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

struct discards {
  void operator()(zip_t* archive) const noexcept { zip_discard(archive); }
};
using open_archive = std::unique_ptr<zip_t, discards>;

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
  open_archive archive(zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, &error));
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
