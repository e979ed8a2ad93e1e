// libtorch_bench: one step of the paper's Burgers Mamba by libtorch (eager, one thread) and by mac_step, on
// the same weights and inputs, taking turns in one run; the smallest of the rounds counts.
#include <mac/mac.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mac/model.hpp>
#include <mac/paper_networks.hpp>

namespace {

using torch::Tensor;

/// The network of docs/engine.md, one time step at a time.
class TorchNetwork {
 public:
  explicit TorchNetwork(const mac::Model& model) : d_model_(size(model.shape.d_model)) {
    const mac::ParameterLayout layout(model.shape);
    const std::vector<float> flat = mac::parameters_as<float>(model);
    const auto tensor = [&](const std::string& name) {
      const mac::TensorSpec& spec = layout.at(name);
      const std::vector<std::int64_t> sizes(spec.shape.begin(), spec.shape.end());
      return torch::tensor(at::ArrayRef<float>(flat.data() + spec.offset, spec.size)).reshape(sizes);
    };
    const auto pair = [&](const std::string& name) {
      return Pair{tensor(name + ".weight"), tensor(name + ".bias")};
    };
    input_ = pair("input_proj");
    norm_ = pair("norm");
    hidden_ = pair("output_proj.0");
    output_ = pair("output_proj.2");
    for (std::size_t i = 0; i < model.shape.n_blocks; ++i) {
      const std::string block = "blocks." + std::to_string(i) + ".", mamba = block + "mamba.";
      blocks_.push_back({pair(block + "norm"), tensor(mamba + "in_proj.weight"),
                         tensor(mamba + "conv1d.weight").squeeze(1).contiguous(),
                         tensor(mamba + "conv1d.bias"), tensor(mamba + "x_proj.weight"),
                         pair(mamba + "dt_proj"), -torch::exp(tensor(mamba + "A_log")), tensor(mamba + "D"),
                         tensor(mamba + "out_proj.weight")});
    }
  }

  struct Memory {
    std::vector<Tensor> conv, ssm;  // (batch, d_inner, d_conv - 1), (batch, d_inner, d_state)
  };
  Memory memory(std::int64_t batch) const {
    Memory memory;
    for (const Block& block : blocks_) {
      memory.conv.push_back(torch::zeros({batch, block.A.size(0), 3}));
      memory.ssm.push_back(torch::zeros({batch, block.A.size(0), block.A.size(1)}));
    }
    return memory;
  }

  Tensor step(const Tensor& x, Memory& memory) const {
    Tensor h = torch::silu(torch::linear(x, input_.weight, input_.bias));
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      h += mamba(blocks_[i], normalised(h, blocks_[i].norm), memory.conv[i], memory.ssm[i]);
    h = torch::silu(torch::linear(normalised(h, norm_), hidden_.weight, hidden_.bias));
    return torch::linear(h, output_.weight, output_.bias);
  }

 private:
  struct Pair {
    Tensor weight, bias;
  };
  struct Block {
    Pair norm;
    Tensor in_proj, conv_weight, conv_bias, x_proj;  // conv_weight (d_inner, d_conv)
    Pair dt_proj;
    Tensor A, D, out_proj;
  };
  static std::int64_t size(std::size_t value) { return static_cast<std::int64_t>(value); }

  Tensor normalised(const Tensor& h, const Pair& norm) const {
    return torch::layer_norm(h, {d_model_}, norm.weight, norm.bias);
  }
  static Tensor mamba(const Block& w, const Tensor& u, Tensor& conv, Tensor& ssm) {
    const std::int64_t states = w.A.size(1), rank = w.dt_proj.weight.size(1);
    const auto xz = torch::linear(u, w.in_proj).chunk(2, 1);
    const Tensor window = torch::cat({conv, xz[0].unsqueeze(2)}, 2);
    conv = window.slice(2, 1);
    const Tensor x = torch::silu((window * w.conv_weight).sum(2).add_(w.conv_bias));
    const auto narrow = torch::linear(x, w.x_proj).split_with_sizes({rank, states, states}, 1);
    const Tensor delta = torch::softplus(torch::linear(narrow[0], w.dt_proj.weight, w.dt_proj.bias));
    ssm.mul_((delta.unsqueeze(2) * w.A).exp_()).addcmul_((delta * x).unsqueeze(2), narrow[1].unsqueeze(1));
    const Tensor y = (ssm * narrow[2].unsqueeze(1)).sum(2).addcmul_(w.D, x).mul_(torch::silu(xz[1]));
    return torch::linear(y, w.out_proj);
  }

  std::int64_t d_model_;
  Pair input_, norm_, hidden_, output_;
  std::vector<Block> blocks_;
};

template <class Step>
double microseconds(std::size_t repeats, const Step& step) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < repeats; ++i) step();
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / static_cast<double>(repeats);
}

void compare(const TorchNetwork& network, const mac_model* model, std::size_t columns) {
  const std::size_t d = mac_model_inputs(model);
  const auto batch = static_cast<std::int64_t>(columns);
  const Tensor x = torch::randn({batch, static_cast<std::int64_t>(d)});
  const std::vector<float> y(x.data_ptr<float>(), x.data_ptr<float>() + columns * d);
  std::vector<float> closure(columns * d);
  TorchNetwork::Memory memory = network.memory(batch);
  mac_state* state = nullptr;
  if (mac_state_create(model, columns, &state, nullptr) != MAC_OK) throw std::bad_alloc();
  Tensor out;
  double torch_time = 1e300, mac_time = 1e300;
  const std::size_t repeats = std::max<std::size_t>(1, 20 / columns);
  for (int round = 0; round < 300; ++round) {
    torch_time = std::min(torch_time, microseconds(repeats, [&] { out = network.step(x, memory); }));
    mac_time = std::min(
        mac_time, microseconds(repeats, [&] { mac_step_float(state, y.data(), closure.data(), nullptr); }));
  }
  const Tensor ours = torch::tensor(closure).reshape(out.sizes());
  std::printf("%7zu %12.1f %9.1f %8.1f %22.1e\n", columns, torch_time, mac_time, torch_time / mac_time,
              ((ours - out).norm() / out.norm()).item<double>());
  mac_state_free(state);
}

}  // namespace

int main() try {
  torch::InferenceMode inference;
  at::set_num_threads(1);
  mac::Model model;
  model.shape = mac::paper_network("burgers", mac::LayerKind::mamba);
  model.parameters = mac::initial_parameters(model.shape, 1);
  model.normalisation = mac::Normalisation::identity(model.shape);
  const std::string path =  // of this process: ranks run side by side
      std::filesystem::temp_directory_path() /
      ("libtorch_bench" + std::to_string(::getpid()) + ".safetensors");
  mac::save_model(model, path);
  mac_model* opened = nullptr;
  if (mac_model_open(path.c_str(), MAC_FLOAT32, &opened, nullptr) != MAC_OK) return 1;
  std::filesystem::remove(path);
  const TorchNetwork network(model);
  std::printf("columns  libtorch us    mac us    ratio    relative difference\n");
  for (const std::size_t columns : {1, 50, 1000}) compare(network, opened, columns);
  mac_model_close(opened);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
