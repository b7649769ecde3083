#include <mailgrad/engine/account/tensorboard_event.hpp>

#include <account/tensorboard_event.pb.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>

namespace mailgrad {

namespace {

using tensorboard::Event;

/// A column of metrics and the tag that it has in TensorBoard, which draws those of one prefix together.
struct scalar {
  const char* tag;
  std::string_view column;
};

constexpr scalar scalars[]{
    {"loss/train", "train_loss"},
    {"loss/test", "test_loss"},
    {"loss/validation", "validation_loss"},
    {"accuracy/test", "test_accuracy"},
    {"accuracy/validation", "validation_accuracy"},
    {"rmse/test", "test_rmse"},
    {"rmse/validation", "validation_rmse"},
    {"staleness/mean", "staleness_mean"},
    {"staleness/p99", "staleness_p99"},
    {"ledger/computed", "computed"},
    {"ledger/applied", "applied"},
    {"ledger/merged", "merged"},
    {"ledger/discarded", "discarded"},
    {"throughput/samples_per_s", "samples_per_s"},
    {"waits/seconds", "waiting_s"},
    {"progress/epoch", "epoch"},
    {"progress/updates", "updates"},
    {"learning_rate", "learning_rate"},
};

std::optional<double> known(const scalar& s, const metrics_line& x) {
  const auto column = std::ranges::find(metrics_columns(), s.column, &metrics_column::name);
  return column->figure(x); // there is one for each row above, as a test shows
}

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

} // namespace

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
  for (const scalar& s : scalars) {
    const auto figure = known(s, x);
    if (!figure) continue;
    auto& value = *e.mutable_summary()->add_value();
    value.set_tag(s.tag);
    value.set_simple_value(static_cast<float>(*figure));
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

} // namespace mailgrad
