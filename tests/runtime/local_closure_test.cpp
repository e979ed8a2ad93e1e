// A local closure in a host: a site is a column, and its inputs are one field with a halo, begun at other elements.
#include <gtest/gtest.h>
#include <mac/mac.h>

#include <algorithm>
#include <mac/error.hpp>

#include "runtime/closure_file.hpp"

namespace mac {
namespace {

Model local_closure() {
  Model model;
  model.shape = {LayerKind::mamba, 4, 1, 8, 1, 4};
  model.parameters = initial_parameters(model.shape, 3);
  for (double& value : model.parameters) value = static_cast<double>(static_cast<float>(value));
  model.normalisation = {{0.1, 0.1, 0.1, 1.5}, {2, 2, 2, 0.5}, {0.2}, {0.7}};
  model.inputs = {{}, {"F"}, {"X"}, {{-1, 1}}};
  model.input_names = {"X[-1]", "X[0]", "X[1]", "F"};
  model.output_names = {"C_X"};
  model.closure_targets = {1};
  model.closure_step = 0.01;
  return model;
}

TEST(LocalClosure, AFieldWithAHaloIsSteppedWhereItLies) {
  const test::ScratchFolder folder;
  const std::string path = test::write_closure(folder, local_closure());
  EXPECT_EQ(load_model(path).inputs, local_closure().inputs);
  mac_model* model = nullptr;
  ASSERT_EQ(mac_model_open(path.c_str(), MAC_PRECISION_OF_FILE, &model, nullptr), MAC_OK);
  EXPECT_STREQ(mac_model_input_name(model, 0), "X[-1]");
  EXPECT_STREQ(mac_model_input_name(model, 3), "F");
  EXPECT_EQ(mac_model_closure_target(model, 0), 1);

  constexpr std::size_t sites = 21;
  mac_state *rows = nullptr, *field = nullptr;
  ASSERT_EQ(mac_state_create(model, sites, &rows, nullptr), MAC_OK);
  ASSERT_EQ(mac_state_create(model, sites, &field, nullptr), MAC_OK);
  const std::vector<double> states = test::random_inputs(3, sites, 1);
  for (std::size_t step = 0; step < 3; ++step) {
    std::vector<double> u(sites + 2), force(sites, 1.7), y, closure(sites), expected(sites);
    std::copy_n(states.begin() + static_cast<std::ptrdiff_t>(step * sites), sites, u.begin() + 1);
    u.front() = u[sites], u.back() = u[1];  // a ring
    for (std::size_t s = 0; s < sites; ++s) y.insert(y.end(), {u[s], u[s + 1], u[s + 2], force[s]});
    ASSERT_EQ(mac_step(rows, y.data(), expected.data(), nullptr), MAC_OK);
    const double* const inputs[] = {u.data(), u.data() + 1, u.data() + 2, force.data()};
    double* const outputs[] = {closure.data()};
    const std::size_t extents[3] = {sites, 1, 1};
    const std::ptrdiff_t strides[3] = {1, sites, sites};
    ASSERT_EQ(mac_step_fields(field, extents, inputs, strides, outputs, strides, nullptr), MAC_OK);
    EXPECT_EQ(closure, expected);
  }
  mac_state_free(rows);
  mac_state_free(field);
  mac_model_close(model);
}

TEST(LocalClosure, MetadataThatContradictEachOtherAreRefused) {
  const test::ScratchFolder folder;
  Model model = local_closure();
  model.inputs.stencil.clear();
  EXPECT_THROW(save_model(model, folder.file("no.safetensors")), Error);
  model = local_closure();
  model.inputs.given = {"a", "b", "c", "d", "e"};
  EXPECT_THROW(save_model(model, folder.file("no.safetensors")), Error);
}

}  // namespace
}  // namespace mac
