#include <mailgrad/net/mpi/mpi_calls.hpp>

#include <mailgrad/net/mpi/mpi_table.h>

#include <fmt/format.h>

#include <dlfcn.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace mailgrad::net {

namespace {

constexpr const char* library_name = "libmailgrad_mpi.so";

class library_calls final : public mpi_calls {
public:
  explicit library_calls(const mailgrad_mpi_table& table) : mpi_(&table) {}

  place begin() override {
    place here;
    check(mpi_->begin(&here.rank, &here.size));
    return here;
  }
  request send(int to, int tag, byte_view data) override {
    request made = 0;
    check(mpi_->send(data.data(), data.size(), to, tag, &made));
    return made;
  }
  bool is_done(request& r) override {
    int done = 0;
    check(mpi_->test(&r, &done));
    return done != 0;
  }
  std::optional<waiting> look(int from, int tag) override {
    int found = 0;
    waiting message;
    check(mpi_->look(from, tag, &found, &message.from, &message.bytes));
    return found ? std::optional(message) : std::nullopt;
  }
  void receive(int from, int tag, std::span<std::byte> to) override {
    check(mpi_->receive(to.data(), to.size(), from, tag));
  }
  request begin_sum(std::span<float> values) override {
    request made = 0;
    check(mpi_->sum(values.data(), values.size(), &made));
    return made;
  }
  request begin_end() override {
    request made = 0;
    check(mpi_->barrier(&made));
    return made;
  }
  void end() override { check(mpi_->end()); }

private:
  void check(int failed) const {
    if (failed == 0) return;
    std::array<char, 512> text{};
    mpi_->words(failed, text.data(), text.size());
    throw std::runtime_error(fmt::format("MPI: {}", text.data()));
  }

  const mailgrad_mpi_table* mpi_;
};

/// Where it lies: beside this program, in the folder of libraries, or where the system's loader looks.
std::string place_of_library() {
  std::error_code failed;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  if (!failed)
    for (const auto& folder : {here, here / ".." / MAILGRAD_LIBRARY_FOLDER})
      if (const auto file = folder / library_name; std::filesystem::exists(file, failed))
        return file.string();
  return library_name;
}

} // namespace

std::unique_ptr<mpi_calls> mpi_of_library(const std::string& file) {
  // MPI loads parts of itself later, and they look for its functions among those that everybody sees.
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* const why = dlerror();
    throw std::runtime_error(fmt::format(
        "mpi: expected MPI on this machine, found none ({}): install Open MPI (Debian: openmpi-bin, and "
        "libopenmpi-dev before Mailgrad is built), or take --transport tcp",
        why ? why : file));
  }
  const auto describe = reinterpret_cast<const mailgrad_mpi_table* (*)()>(dlsym(library, "mailgrad_mpi"));
  const mailgrad_mpi_table* const table = describe ? describe() : nullptr;
  if (!table || table->layout != mailgrad_mpi_layout)
    throw std::runtime_error(
        fmt::format("mpi: expected layout {} of {}, found {}: install it with this Mailgrad",
                    mailgrad_mpi_layout, file, table ? std::to_string(table->layout) : "none"));
  return std::make_unique<library_calls>(*table);
}

std::unique_ptr<mpi_calls> mpi_of_this_machine() { return mpi_of_library(place_of_library()); }

} // namespace mailgrad::net
