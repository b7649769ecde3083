#include <mailgrad/graph/travel/request_fields.hpp>

#include <mailgrad/graph/kept_shape.hpp>
#include <mailgrad/graph/travel/graph_image.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace mailgrad {

void keep(archive& a, device& d) {
  a.choice("kind", d.kind, device_kind::cuda);
  a.field("index", d.index);
  if (d.kind == device_kind::cuda) a.field("lane", d.lane);
}

void keep(archive& a, input_request& r) {
  a.field("name", r.name);
  a.field("sample", r.sample);
}

/// The names for the members are complete, or this does not compile.
void keep(archive& a, model_request& r) {
  auto& [sample_dims, features, categories, inputs, wanted, target_dims, classes, batch, nonzeros, purpose,
         seed, devices, worker, workers] = r;
  a.version(1);
  a.field("sample dims", sample_dims);
  a.choice("features", features, feature_kind::tokens);
  a.field("categories", categories);
  a.field("inputs", inputs);
  a.choice("wanted", wanted, answer::a_number);
  a.field("target dims", target_dims);
  a.field("classes", classes);
  a.field("batch", batch);
  a.field("nonzeros", nonzeros);
  a.choice("purpose", purpose, phase::evaluation);
  a.field("seed", seed);
  a.field("devices", devices);
  a.field("worker", worker);
  a.field("workers", workers);
}

std::vector<std::pair<std::string, std::string>> fields_in_words(const model_request& r) {
  const auto& [sample_dims, features, categories, inputs, wanted, target_dims, classes, batch, nonzeros,
               purpose, seed, devices, worker, workers] = r;
  std::vector<std::string> named, places;
  for (const input_request& i : inputs) named.push_back(fmt::format("{} of {}", i.name, to_string(i.sample)));
  for (const device d : devices) // each by the first device that is the same
    places.push_back(std::to_string(std::ranges::find(devices, d) - devices.begin()));
  return {{"phase", purpose == phase::training ? "training" : "evaluation"},
          {"batch", std::to_string(batch)},
          {"worker", std::to_string(worker)},
          {"number of workers", std::to_string(workers)},
          {"devices", fmt::format("{} ({})", devices.size(), fmt::join(places, ", "))},
          {"seed", std::to_string(seed)},
          {"sample", to_string(sample_dims)},
          {"features", features == feature_kind::tokens ? "tokens" : "numbers"},
          {"categories", fmt::format("({})", fmt::join(categories, ", "))},
          {"inputs", fmt::format("({})", fmt::join(named, ", "))},
          {"answer", wanted == answer::a_class ? "a class" : "a number"},
          {"target", to_string(target_dims)},
          {"number of classes", std::to_string(classes)},
          {"nonzeros", std::to_string(nonzeros)}};
}

device same_place(device d, const std::vector<device>& then, const std::vector<device>& now) {
  const auto place = static_cast<std::size_t>(std::ranges::find(then, d) - then.begin());
  return place < std::min(then.size(), now.size()) ? now[place] : d;
}

} // namespace mailgrad
