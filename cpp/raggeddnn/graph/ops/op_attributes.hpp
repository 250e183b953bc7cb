// What the option classes of operations share: a name, and the wire's own table.
#pragma once

#include <string>
#include <utility>

#include "raggeddnn/graph/tensor_attributes.hpp"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn {

// Derived: the class of one operation; WireTable: its object struct, e.g.
// schema::MatmulAttributesT.
template <class Derived, class WireTable>
class OpAttributes {
public:
    using Table = WireTable;

    Derived& set_name(std::string name) {
        name_ = std::move(name);
        return self();
    }
    const std::string& name() const { return name_; }
    const Table& table() const { return table_; }

protected:
    Derived& self() { return static_cast<Derived&>(*this); }

    Table table_;

private:
    std::string name_;
};

}  // namespace raggeddnn
