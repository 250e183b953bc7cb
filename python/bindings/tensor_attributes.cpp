// TensorAttributes: cuDNN's chainable setters, and getters.
#include "bindings.hpp"

namespace raggeddnn::python {

namespace {

using Dims = std::vector<int64_t>;

// A setter that returns the same Python object, and warns when the graph already took its final
// form.
template <class Method>
auto setter(const char* name, Method method) {
    return [name, method]<class... Args>(const TensorPtr& self, Args... args) {
        if (self->is_built()) {
            const std::string text =
                message(name, " on ", self->label(),
                        " after its graph was built changes this object alone; "
                        "the built plan keeps what it was built with");
            if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) != 0)
                throw py::error_already_set();
        }
        method(*self, std::move(args)...);
        return self;
    };
}

template <class... Args>
struct With {
    template <class F>
    static auto typed(F f) {
        return [f](const TensorPtr& self, Args... args) { return f(self, std::move(args)...); };
    }
};

void set_value(TensorAttributes& self, py::object value, std::optional<DataType> type) {
    const DataType declared = type.value_or(self.stated_data_type());
    self.set_compile_time_constant(scalar_from_python(value, declared, self.label()));
}

std::string repr_of(const TensorAttributes& t) {
    const auto list = [](const Dims& values) { return std::string(py::repr(py::cast(values))); };
    std::string text = "<TensorAttributes";
    if (!t.get_name().empty()) text += " '" + t.get_name() + "'";
    if (t.has_uid()) text += " uid=" + std::to_string(t.get_uid());
    text += " dim=" + list(t.get_dim()) + " stride=" + list(t.get_stride()) + " " +
            std::string(to_string(t.get_data_type()));
    if (t.get_is_virtual()) text += " virtual";
    if (t.has_ragged_offset()) text += " ragged";
    if (t.get_is_runtime_pass_by_value()) text += " runtime";
    const py::object value = scalar_to_python(t.get_value_variant());
    if (!value.is_none()) text += " value=" + std::string(py::repr(value));
    return text + ">";
}

py::object value_or_none(const std::optional<TensorAttributes::pass_by_values_t>& value) {
    return value ? scalar_to_python(*value) : py::none();
}

}  // namespace

void bind_tensor_attributes(py::module_& m) {
    using T = TensorAttributes;
    py::class_<T, TensorPtr> c(
        m, "TensorAttributes",
        "A tensor of a graph: dims and strides in elements, type, raggedness, and "
        "for scalars one of three by-value states. Setters return the tensor.");
    c.def(py::init<>());
    c.def(py::init([](py::object scalar) {
              auto t = std::make_shared<T>();
              set_value(*t, std::move(scalar), std::nullopt);
              return t;
          }),
          py::arg("scalar"), "A compile-time constant.");
    c.def(py::init([](py::object scalar, ScalarType type) {
              auto t = std::make_shared<T>();
              set_value(*t, std::move(scalar), std::nullopt);
              t->set_is_pass_by_value(type == ScalarType::RUNTIME_PARAM);
              return t;
          }),
          py::arg("scalar"), py::arg("type"),
          "RUNTIME_PARAM: a runtime scalar with this default; COMPILE_TIME_CONST: a constant.");

    c.def("set_name",
          With<std::string>::typed(
              setter("set_name", [](T& t, std::string name) { t.set_name(std::move(name)); })),
          py::arg("name"));
    c.def("set_uid",
          With<int64_t>::typed(setter("set_uid", [](T& t, int64_t uid) { t.set_uid(uid); })),
          py::arg("uid"));
    c.def("clear_uid", With<>::typed(setter("clear_uid", [](T& t) { t.clear_uid(); })));
    c.def("set_dim",
          With<Dims>::typed(setter("set_dim", [](T& t, Dims dim) { t.set_dim(std::move(dim)); })),
          py::arg("dim"));
    c.def("set_stride",
          With<Dims>::typed(
              setter("set_stride", [](T& t, Dims stride) { t.set_stride(std::move(stride)); })),
          py::arg("stride"));
    c.def("set_data_type",
          With<DataType>::typed(
              setter("set_data_type", [](T& t, DataType type) { t.set_data_type(type); })),
          py::arg("data_type"));
    c.def("set_alignment",
          With<int64_t>::typed(
              setter("set_alignment", [](T& t, int64_t bytes) { t.set_alignment(bytes); })),
          py::arg("alignment"), "Least alignment of the base address, in bytes (default 16).");
    c.def("set_output",
          With<bool>::typed(
              setter("set_output", [](T& t, bool is_output) { t.set_output(is_output); })),
          py::arg("is_output"));
    c.def("set_is_virtual",
          With<bool>::typed(setter("set_is_virtual",
                                   [](T& t, bool is_virtual) { t.set_is_virtual(is_virtual); })),
          py::arg("is_virtual"));
    c.def(
        "set_ragged_offset",
        With<std::optional<TensorPtr>>::typed(setter("set_ragged_offset",
                                                     [](T& t, std::optional<TensorPtr> aux) {
                                                         t.set_ragged_offset(aux.value_or(nullptr));
                                                     })),
        py::arg("ragged_offset"),
        "The tensor of B+1 offsets where each batch begins: [B+1, 1, 1, 1] or [B+1], INT32 or "
        "INT64, "
        "in elements times the multiplier. None: not ragged.");
    c.def("set_ragged_offset_multiplier",
          With<int64_t>::typed(
              setter("set_ragged_offset_multiplier",
                     [](T& t, int64_t multiplier) { t.set_ragged_offset_multiplier(multiplier); })),
          py::arg("multiplier"), "Element offset = stored offset * multiplier (default 1).");
    c.def(
        "set_value",
        With<py::object, std::optional<DataType>>::typed(setter("set_value", set_value)),
        py::arg("value"), py::arg("data_type") = py::none(),
        "A compile-time constant, in data_type, else the type set before, else the number's own.");
    c.def("set_compile_time_constant",
          With<py::object>::typed(setter("set_compile_time_constant",
                                         [](T& t, py::object value) {
                                             if (!value.is_none()) {
                                                 set_value(t, std::move(value), std::nullopt);
                                             }
                                         })),
          py::arg("value"), "The same as set_value; None does nothing.");
    c.def("set_as_runtime_parameter",
          With<>::typed(
              setter("set_as_runtime_parameter", [](T& t) { t.set_as_runtime_parameter(); })),
          "A scalar that the variant pack supplies; clears any value.");
    c.def("set_is_pass_by_value",
          With<bool>::typed(
              setter("set_is_pass_by_value",
                     [](T& t, bool is_runtime) { t.set_is_pass_by_value(is_runtime); })),
          py::arg("is_pass_by_value"), "Sets the runtime flag and touches no value.");

    c.def("get_name", [](const T& t) { return to_text(t.get_name()); });
    c.def("get_uid", [](const T& t) {
        if (!t.has_uid()) {
            fail(ErrorCode::ATTRIBUTE_NOT_SET, t.label(),
                 ": no uid yet, expected set_uid or a built "
                 "graph");
        }
        return t.get_uid();
    });
    c.def("has_uid", &T::has_uid);
    c.def("get_dim", &T::get_dim);
    c.def("get_stride", &T::get_stride);
    c.def("get_data_type", &T::get_data_type);
    c.def("get_alignment", &T::get_alignment);
    c.def("get_is_virtual", &T::get_is_virtual);
    c.def("get_volume", &T::get_volume, "Product of dims.");
    c.def("get_ragged_offset", [](const T& t) {
        const TensorPtr aux = t.get_ragged_offset();
        return aux ? std::optional(aux) : std::nullopt;
    });
    c.def("has_ragged_offset", &T::has_ragged_offset);
    c.def("get_ragged_offset_multiplier", &T::get_ragged_offset_multiplier);
    c.def(
        "get_pass_by_value", [](const T& t) { return value_or_none(t.get_pass_by_value()); },
        "The default of a runtime scalar; None in every other state.");
    c.def(
        "get_compile_time_constant",
        [](const T& t) { return value_or_none(t.get_compile_time_constant()); },
        "The value of a compile-time constant; None in every other state.");
    c.def(
        "get_value_variant", [](const T& t) { return scalar_to_python(t.get_value_variant()); },
        "The stored value whatever the state, or None.");
    c.def("get_is_pass_by_value", &T::get_is_pass_by_value, "True in all three by-value states.");
    c.def("get_has_compile_time_constant", &T::get_has_compile_time_constant);
    c.def("get_is_runtime_pass_by_value", &T::get_is_runtime_pass_by_value);
    c.def(
        "validate", [](const T& t) { raise_if_bad(t.validate()); },
        "Raises InvalidValueError naming the tensor, got and expected.");
    c.def("__repr__", [](const T& t) { return to_text(repr_of(t)); });
}

}  // namespace raggeddnn::python
