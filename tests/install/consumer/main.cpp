#include <mailgrad/tensor/tensor.hpp>

int main() {
  mailgrad::tensor t({2, 3});
  t.values()[5] = 1.0F;
  return t.size() == 6 ? 0 : 1;
}
