#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>

#include <algorithm>

namespace mailgrad {

std::string format_computer(device d) {
  if (d.kind == device_kind::cpu) return "the host";
  const auto found = cuda::runtime::find_gpus();
  return d.index < found.gpus.size() ? found.gpus[d.index].name : "a card";
}

std::string products_here() {
  try {
    return cuda::format_products();
  } catch (const device_error&) {
    return "none";
  }
}

worker_computer computer_of(const std::vector<device>& devices) {
  worker_computer all;
  for (const device d : devices) all.name += (all.name.empty() ? "" : " and ") + format_computer(d);
  if (std::ranges::find(devices, device_kind::cuda, &device::kind) != devices.end())
    all.products = products_here();
  return all;
}

std::string format_names(const std::vector<worker_computer>& all) {
  std::string words;
  for (const worker_computer& w : all) words += (words.empty() ? "" : ", ") + w.name;
  return words;
}

std::string format_products(const std::vector<worker_computer>& all) {
  std::vector<std::string> versions;
  for (const worker_computer& w : all)
    if (w.has_gpu() && std::ranges::find(versions, w.products) == versions.end())
      versions.push_back(w.products);
  std::string words;
  for (const std::string& v : versions) words += (words.empty() ? "" : ", ") + v;
  return words.empty() ? "none" : words;
}

bool any_has_gpu(const std::vector<worker_computer>& all) noexcept {
  return std::ranges::any_of(all, &worker_computer::has_gpu);
}

} // namespace mailgrad
