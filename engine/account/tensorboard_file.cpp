#include <mailgrad/engine/account/figures.hpp>
#include <mailgrad/engine/account/tensorboard_file.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/digests.hpp>

#include <account/tensorboard_event.pb.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <system_error>

namespace mailgrad {

namespace {

/// The mask keeps the checksum of bytes that contain checksums from being a trivial one.
void append_masked_crc(std::string& to, std::string_view bytes) {
  const std::uint32_t masked = std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
  append_number<4>(to, masked);
}

using tensorboard::Event;

/// TensorBoard reads no message with a text that is none.
std::string as_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

Event at(const board_moment& when) {
  Event e;
  e.set_wall_time(when.wall_time);
  e.set_step(static_cast<std::int64_t>(when.step));
  return e;
}

constexpr std::uint64_t exact_gaps = 1024;

/// The gaps of a bucket; of the next one the first gap is behind the last of this one.
struct gap_range {
  std::uint64_t first, last;
};

gap_range bucket_of(std::uint64_t gap) {
  if (gap < exact_gaps) return {gap, gap};
  const std::uint64_t power = std::bit_floor(gap);
  return {power, power + (power - 1)};
}

double behind(std::uint64_t gap) { return static_cast<double>(gap) + 0.5; }

/// Counts gaps that come in rising order. An empty bucket stands for all the gaps between two.
void count(tensorboard::HistogramProto& to, std::uint64_t gap, double times) {
  const auto [first, last] = bucket_of(gap);
  const int buckets = to.bucket_limit_size();
  const bool begun = buckets > 0;
  if (begun && to.bucket_limit(buckets - 1) == behind(last)) {
    to.set_bucket(buckets - 1, to.bucket(buckets - 1) + times);
    return;
  }
  if (begun && to.bucket_limit(buckets - 1) < behind(first) - 1) {
    to.add_bucket_limit(behind(first) - 1);
    to.add_bucket(0);
  }
  to.add_bucket_limit(behind(last));
  to.add_bucket(times);
}

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& folder, std::error_code why) {
  throw std::system_error(why, fmt::format("tensorboard '{}' cannot be written", folder));
}

double unix_seconds(calendar_time date) {
  return std::chrono::duration<double>(date.time_since_epoch()).count();
}

/// Makes an empty file that nobody else has. TensorBoard reads files in the order of their names.
fs::path new_file(const std::string& folder, calendar_time date) {
  std::error_code why;
  fs::create_directories(folder, why);
  if (why) cannot_write(folder, why);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(date.time_since_epoch()).count();
  const std::string host = this_program().host;
  for (int i = 0;; ++i) {
    fs::path path = fs::path(folder) / fmt::format("events.out.tfevents.{:010}.{}.{:02}", seconds, host, i);
    const int made = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (made < 0 && errno == EEXIST) continue;
    if (made < 0) cannot_write(folder, {errno, std::generic_category()});
    close(made);
    return path;
  }
}

} // namespace

bool can_write_tensorboard() noexcept { return true; }

std::string tf_record(std::string_view data) {
  std::string record;
  append_number<8>(record, data.size());
  append_masked_crc(record, std::string(record));
  record += data;
  append_masked_crc(record, data);
  return record;
}

std::string version_event(double wall_time) {
  Event e = at({wall_time});
  e.set_file_version("brain.Event:2");
  return e.SerializeAsString();
}

std::string resume_event(const board_moment& when) {
  Event e = at(when);
  e.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  return e.SerializeAsString();
}

std::string options_event(double wall_time, const board_options& options) {
  tensorboard::HParamsPluginData told;
  auto& session = *told.mutable_session_start_info();
  session.set_start_time_secs(wall_time);
  for (const auto& [name, option] : options) {
    auto& value = (*session.mutable_hparams())[name];
    if (const auto* number = std::get_if<double>(&option))
      value.set_number_value(*number);
    else
      value.set_string_value(as_utf8(std::get<std::string>(option)));
  }
  Event e = at({wall_time, 0});
  auto& value = *e.mutable_summary()->add_value();
  value.set_tag("_hparams_/session_start_info");
  auto& shown = *value.mutable_metadata()->mutable_plugin_data();
  shown.set_plugin_name("hparams");
  shown.set_content(told.SerializeAsString());
  auto& none = *value.mutable_tensor(); // what the plugin reads is in the metadata
  none.set_dtype(tensorboard::TensorProto::DT_FLOAT);
  none.mutable_tensor_shape()->add_dim()->set_size(1);
  none.add_float_val(0);
  return e.SerializeAsString();
}

std::string text_event(const board_moment& when, std::string_view tag, const std::string& markdown) {
  Event e = at(when);
  auto& value = *e.mutable_summary()->add_value();
  value.set_tag(std::string(tag));
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value.mutable_metadata()->set_data_class(tensorboard::SummaryMetadata::DATA_CLASS_TENSOR);
  auto& text = *value.mutable_tensor();
  text.set_dtype(tensorboard::TensorProto::DT_STRING);
  text.mutable_tensor_shape()->add_dim()->set_size(1);
  text.add_string_val(as_utf8(markdown));
  return e.SerializeAsString();
}

std::string count_event(const board_moment& when, std::string_view tag, std::uint64_t count) {
  Event e = at(when);
  auto& value = *e.mutable_summary()->add_value();
  value.set_tag(std::string(tag));
  value.set_simple_value(static_cast<float>(count));
  return e.SerializeAsString();
}

std::string scalars_event(const board_moment& when, const metrics_line& x) {
  Event e = at(when);
  for (const figure& f : figures_of(x)) {
    const std::optional<double> known = f.elsewhere.tag ? f.number() : std::nullopt;
    if (!known) continue;
    auto& value = *e.mutable_summary()->add_value();
    value.set_tag(f.elsewhere.tag);
    value.set_simple_value(static_cast<float>(*known));
  }
  return e.SerializeAsString();
}

std::string gaps_event(const board_moment& when, const staleness_histogram& gaps) {
  Event e = at(when);
  auto& value = *e.mutable_summary()->add_value();
  value.set_tag("staleness/gaps");
  auto& to = *value.mutable_histo();
  double sum = 0, squares = 0;
  const auto buckets = gaps.buckets();
  for (const auto& [gap, count_of_gap] : buckets) {
    const auto size = static_cast<double>(gap), times = static_cast<double>(count_of_gap);
    count(to, gap, times);
    sum += size * times;
    squares += size * size * times;
  }
  if (!buckets.empty()) to.set_min(static_cast<double>(buckets.front().first));
  to.set_max(static_cast<double>(gaps.max()));
  to.set_num(static_cast<double>(gaps.total()));
  to.set_sum(sum);
  to.set_sum_squares(squares);
  return e.SerializeAsString();
}

tensorboard_file::tensorboard_file(const std::string& folder, const board_start& start)
    : time_zero_(unix_seconds(start.date) - in_seconds(start.elapsed_before)),
      steps_before_(start.steps_before), last_{unix_seconds(start.date), start.resumed_at.value_or(0)},
      switches_(start.switches), path_(new_file(folder, start.date)) {
  errno = 0;
  out_.open(path_, std::ios::binary | std::ios::app);
  if (!out_) cannot_write(folder, {errno, std::generic_category()});
  write(version_event(last_.wall_time));
  if (start.resumed_at) write(resume_event({last_.wall_time, *start.resumed_at + 1}));
  if (!start.options.empty()) write(options_event(last_.wall_time, start.options));
  if (!start.policy.empty()) tell_policy(last_, fmt::format("`{}`", start.policy));
}

void tensorboard_file::add(const metrics_line& x) {
  last_ = moment_of(x.time_s, x.steps);
  write(scalars_event(last_, x));
}

void tensorboard_file::add(const gaps_measured& x) {
  write(gaps_event(moment_of(x.time_s, x.steps), x.gaps));
}

void tensorboard_file::add(const policy_switch& x) {
  ++switches_;
  tell_policy({last_.wall_time, x.step},
              fmt::format("`{}`, after `{}` until step {}: {}", x.to, x.from, x.step, x.why));
}

void tensorboard_file::tell_policy(const board_moment& when, const std::string& markdown) {
  write(text_event(when, "policy", markdown));
  write(count_event(when, "policy/switches", switches_));
}

void tensorboard_file::add(const members_changed& x) {
  write(text_event(last_, "members", x.what));
  write(count_event(last_, "members/workers", x.workers));
  write(count_event(last_, "members/parameter_hosts", x.parameter_hosts));
}

board_moment tensorboard_file::moment_of(double time_s, std::uint64_t steps) const noexcept {
  return {time_zero_ + time_s, steps_before_ + steps};
}

void tensorboard_file::write(const std::string& event) {
  if (!failure_.empty()) return;
  errno = 0;
  out_ << tf_record(event) << std::flush;
  if (out_) return;
  failure_ =
      fmt::format("tensorboard '{}' ends early: {}", path_.string(), std::generic_category().message(errno));
  out_.close();
}

} // namespace mailgrad
