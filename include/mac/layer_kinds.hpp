// The kinds of layer that the blocks of a network can have: a line each. All else about a kind stands in
// src/network/kinds/KIND/. Saved states know a kind by its place: a new one comes last.
#pragma once

#define MAC_LAYER_KINDS(KIND) \
  KIND(mamba)                 \
  KIND(gru)                   \
  KIND(mlp)                   \
  KIND(lstm)                  \
  KIND(oscillator)

namespace mac {

#define MAC_KIND(kind) kind,
enum class LayerKind { MAC_LAYER_KINDS(MAC_KIND) };
#undef MAC_KIND

#define MAC_KIND(kind) LayerKind::kind,
inline constexpr LayerKind layer_kinds[] = {MAC_LAYER_KINDS(MAC_KIND)};
#undef MAC_KIND

}  // namespace mac
