#include <mailgrad/engine/account/metrics_line.hpp>

#include <nlohmann/json.hpp>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

json known(const auto& figure) { return figure ? json(*figure) : json(nullptr); }

json all_columns(const metrics_line& x) {
  return {{"time_s", x.time_s},
          {"steps", x.steps},
          {"updates", x.updates},
          {"samples", x.samples},
          {"epoch", x.epoch},
          {"train_loss", known(x.train_loss)},
          {"learning_rate", x.learning_rate},
          {"staleness_mean", known(x.staleness_mean)},
          {"staleness_p99", known(x.staleness_p99)},
          {"computed", x.computed},
          {"applied", x.applied},
          {"discarded", x.discarded},
          {"samples_per_s", x.samples_per_s},
          {"waiting_s", x.waiting_s},
          {"test_loss", known(x.test_loss)},
          {"test_accuracy", known(x.test_accuracy)},
          {"test_rmse", known(x.test_rmse)}};
}

/// `piece` gives the text of each column.
std::string joined(const json& columns, const auto& piece) {
  std::string text;
  for (const auto& [name, figure] : columns.items()) text += (text.empty() ? "" : ",") + piece(name, figure);
  return text;
}

} // namespace

std::string to_json(const metrics_line& x) {
  json line = all_columns(x);
  if (!x.tested()) line.erase("test_loss");
  if (!x.test_accuracy) line.erase("test_accuracy");
  if (!x.test_rmse) line.erase("test_rmse");
  return line.dump();
}

std::string metrics_csv_header() {
  return joined(all_columns({}), [](const std::string& name, const json&) { return name; });
}

/// The first column is never empty.
std::string to_csv(const metrics_line& x) {
  return joined(all_columns(x), [](const std::string&, const json& figure) {
    const std::string text = figure.dump(); // a figure that is not finite is null here
    return text == "null" ? std::string() : text;
  });
}

} // namespace mailgrad
