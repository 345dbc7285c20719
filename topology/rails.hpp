// Rails: which NICs carry GPU traffic, and which of them each GPU uses.
#pragma once

#include "topology/node.hpp"

namespace railyard::topology {

// Sets the NICs' roles and each GPU's near NICs, NIC, path and rail number from the path table. Rules:
//  - Only fabric devices can be rails. Where any GPU shares a PCIe switch with a NIC (PIX, PXB), rail NICs are those
//    that are the nearest of some GPU at that closeness; all others (storage, management) are not rails. Where no
//    switch is shared, rail NICs are the nearest of some GPU inside its NUMA node, InfiniBand before Ethernet and the
//    fastest rate before others.
//  - Where every path is SYS (Grace, virtual machines), paths tell nothing: rails stay unknown.
//  - A GPU's near NICs are those of the nearest class, behind the fewest bridges where the PCI tree is known. Of them
//  it takes
//    the one that fewest GPUs have taken, then the nearest bus number, then PCI order.
//  - Rails are numbered in PCI order over rail NICs (in the source's order where PCI addresses are unknown).
// Shared rails are notes; a GPU left without a near NIC where most have one, and rail NICs that are down, are warnings.
void assign_rails(Node& node);

}  // namespace railyard::topology
