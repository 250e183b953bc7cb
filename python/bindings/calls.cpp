// What a call from PyTorch does between Python and a plan, where every microsecond counts: read the
// tensors once, check their offsets, make the key that the plan is kept under, and execute by
// address. PyTorch itself is neither linked nor imported: tensors are read through DLPack's C
// functions where their type has them, else by their methods.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "arrays.hpp"
#include "raggeddnn/tensor/dlpack.hpp"

namespace raggeddnn::python {

namespace {

// Where the memory of an empty tensor points: somewhere, aligned as much as any tensor asks.
alignas(64) unsigned char nothing[1];

constexpr int64_t MAX_ALIGNMENT = 16;  // bytes; what lies aligned beyond it shares a plan

// Of torch.dtype objects, which live as long as the process; the GIL guards the table.
DataType type_of_dtype(py::handle dtype) {
    static auto* known = new std::unordered_map<PyObject*, DataType>;
    const auto found = known->find(dtype.ptr());
    if (found != known->end()) return found->second;
    std::string name = py::str(dtype);
    const size_t dot = name.rfind('.');
    if (dot != std::string::npos) name.erase(0, dot + 1);
    const DataType type = type_of_name(name);
    dtype.inc_ref();
    known->emplace(dtype.ptr(), type);
    return type;
}

struct Names {
    PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
    PyObject* shape = PyUnicode_InternFromString("shape");
    PyObject* stride = PyUnicode_InternFromString("stride");
    PyObject* dtype = PyUnicode_InternFromString("dtype");
    PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
    PyObject* device = PyUnicode_InternFromString("device");
};

const Names& names() {
    static const Names found;
    return found;
}

py::object checked(PyObject* result) {
    if (!result) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(result);
}

py::object call_method(py::handle object, PyObject* name) {
    return checked(PyObject_CallMethodNoArgs(object.ptr(), name));
}

py::object attribute(py::handle object, PyObject* name) {
    return checked(PyObject_GetAttr(object.ptr(), name));
}

constexpr size_t MAX_AXES = 8;
using Extents = std::array<int64_t, MAX_AXES>;

// How the first tensors of a call are read: those of two axes are statistics (H, rows).
size_t row_axis(size_t axes) { return axes == 2 ? 1 : 0; }

struct Fact {
    size_t axes = 0;
    Extents dims{};
    Extents strides{};  // in elements
    char* address = nullptr;
    DataType type = DataType::NOT_SET;
    py::handle object;
    bool is_given = false;
    bool is_host = false;
};

// Tensors that wrap others, and those whose storage was freed, have no memory.
bool lacks_memory(const Fact& fact) {
    const auto end = fact.dims.begin() + static_cast<std::ptrdiff_t>(fact.axes);
    return !fact.address && std::find(fact.dims.begin(), end, 0) == end;
}

std::string memory_message(const Fact& fact) {
    return message(" is a ",
                   std::string(py::str(py::type::handle_of(fact.object).attr("__name__"))),
                   " of shape ", std::string(py::str(fact.object.attr("shape"))), " on ",
                   std::string(py::str(fact.object.attr("device"))),
                   " without memory, expected one whose elements can be read");
}

// The function of a type, which lives as long as the process; null for a type that has none.
decltype(dlpack::ExchangeApi::borrow) borrow_of(py::handle object) {
    static auto* known = new std::unordered_map<PyTypeObject*, dlpack::ExchangeApi*>;
    PyTypeObject* const type = Py_TYPE(object.ptr());
    const auto found = known->find(type);
    if (found != known->end()) return found->second ? found->second->borrow : nullptr;
    dlpack::ExchangeApi* api = nullptr;
    const py::object capsule =
        py::getattr(py::type::handle_of(object), "__dlpack_c_exchange_api__", py::none());
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::ExchangeApi::CAPSULE)) {
        api = static_cast<dlpack::ExchangeApi*>(
            PyCapsule_GetPointer(capsule.ptr(), dlpack::ExchangeApi::CAPSULE));
        while (api && api->major != 1) api = api->previous;
    }
    Py_INCREF(type);
    known->emplace(type, api);
    return api ? api->borrow : nullptr;
}

size_t read_integers(py::handle tuple, Extents& to) {
    const auto size = static_cast<size_t>(PyTuple_GET_SIZE(tuple.ptr()));
    if (size > MAX_AXES) invalid("got a tensor of ", size, " axes, expected at most ", MAX_AXES);
    for (size_t i = 0; i < size; ++i) {
        to[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i)));
    }
    if (PyErr_Occurred()) throw py::error_already_set();
    return size;
}

// A message's words for one side of a call; indices into the tuple that Python gives.
enum Word : size_t { CALLER, CU, USED, LIMIT, ROWS, VALUES, WORDS };

class SideWords {
public:
    explicit SideWords(py::handle words) : words_(words) {
        if (!PyTuple_Check(words.ptr()) || PyTuple_GET_SIZE(words.ptr()) != WORDS) {
            invalid("check_sequences: expected ", size_t(WORDS), " words for each side");
        }
    }
    std::string operator[](Word index) const {
        return py::str(PyTuple_GET_ITEM(words_.ptr(), static_cast<Py_ssize_t>(index)));
    }
    template <class... Parts>
    [[noreturn]] void refuse(const Parts&... parts) const {
        invalid("[", (*this)[CALLER], "] ", parts...);
    }

private:
    py::handle words_;
};

// Cumulative lengths and valid lengths of one side, read where they are.
class SideCheck {
public:
    SideCheck(const Fact& cu, const Fact& used, const SideWords& words)
        : cu_(cu), used_(used), words_(words) {
        check_form(cu_, CU, -1);
        if (used_.is_given) check_form(used_, USED, cu_.dims[0] - 1);
    }

    // (longest block, does every row belong to a valid one)
    std::pair<int64_t, bool> run(int64_t rows, int64_t limit) const {
        if (limit < 0) refuse(word(LIMIT), " is ", limit, ", expected 0 or more");
        if (at(cu_, 0) != 0) refuse(word(CU), "[0] is ", at(cu_, 0), ", expected 0");
        int64_t longest = 0;
        bool is_full = true;
        int64_t begin = 0;
        for (int64_t b = 0; b + 1 < cu_.dims[0]; ++b) {
            const int64_t end = at(cu_, b + 1);
            if (end < begin) {
                refuse(word(CU), "[", b + 1, "] is ", end, ", expected at least ", begin);
            }
            if (end > rows) {
                refuse(word(CU), "[", b + 1, "] is ", end, ", expected at most ", rows,
                       ", the rows of ", word(ROWS));
            }
            const int64_t block = end - begin;
            int64_t length = block;
            if (used_.is_given) {
                length = at(used_, b);
                if (length < 0 || length > block) {
                    refuse(word(USED), "[", b, "] is ", length, ", expected 0 to ", block,
                           ", its block's rows");
                }
                is_full = is_full && length == block;
            }
            if (length > limit) {
                refuse(word(LIMIT), " is ", limit, ", expected at least ", length,
                       ", the length of sequence ", b, " (",
                       used_.is_given ? message(word(USED), "[", b, "]")
                                      : message(word(CU), "[", b, "] and [", b + 1, "]"),
                       ")");
            }
            longest = std::max(longest, block);
            begin = end;
        }
        return {longest, is_full && begin == rows};
    }

private:
    std::string word(Word index) const { return words_[index]; }

    template <class... Parts>
    [[noreturn]] void refuse(const Parts&... parts) const {
        words_.refuse(parts...);
    }

    void check_form(const Fact& x, Word which, int64_t count) const {
        if (!x.is_given) refuse(word(which), " is None, expected int32 or int64");
        if (x.type != DataType::INT32 && x.type != DataType::INT64) {
            refuse(word(which), " has data type ", std::string(py::str(x.object.attr("dtype"))),
                   ", expected int32 or int64");
        }
        if (lacks_memory(x)) refuse(word(which), memory_message(x));
        if (x.axes == 1 && (count < 0 ? x.dims[0] > 0 : x.dims[0] == count)) return;
        std::string shape;
        for (size_t axis = 0; axis < x.axes; ++axis) {
            shape += message(shape.empty() ? "" : ", ", x.dims[axis]);
        }
        refuse(word(which), " has shape (", shape, "), expected (",
               count < 0 ? std::string("batch + 1") : message(count), ",)");
    }

    static int64_t at(const Fact& x, int64_t index) {
        const int64_t element = index * x.strides[0];
        if (x.type == DataType::INT64) {
            int64_t value = 0;
            std::memcpy(&value, x.address + element * 8, sizeof(value));
            return value;
        }
        int32_t value = 0;
        std::memcpy(&value, x.address + element * 4, sizeof(value));
        return value;
    }

    const Fact& cu_;
    const Fact& used_;
    const SideWords& words_;
};

// S_max: the power of two that holds so many rows, so that few plans are built.
int64_t capacity_of(int64_t rows) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(rows, 1))));
}

// (S_max of the queries, of the keys, does every row of q and of k belong to a sequence, is there
// anything to compute)
using SequenceFacts = std::tuple<int64_t, int64_t, bool, bool, bool>;

class TensorFacts {
public:
    // `free`: how many of the first tensors have rows, whose number no plan depends on.
    TensorFacts(py::tuple tensors, size_t free)
        : tensors_(std::move(tensors)), facts_(tensors_.size()) {
        key_.reserve(128 * facts_.size());
        for (size_t i = 0; i < facts_.size(); ++i) {
            const py::handle tensor = PyTuple_GET_ITEM(tensors_.ptr(), static_cast<Py_ssize_t>(i));
            if (tensor.is_none()) {
                key_.push_back('-');
            } else {
                read(tensor, i < free, facts_[i]);
            }
        }
    }

    py::bytes key() const { return {key_.data(), key_.size()}; }
    const std::vector<Fact>& facts() const { return facts_; }

    // Of a packed call: q, k, v first, cu_q, cu_k, used_q, used_k from index `tables` on.
    SequenceFacts check_sequences(size_t tables, int64_t limit_q, int64_t limit_k,
                                  const py::tuple& words) const {
        if (tables < 3 || tables + 4 > facts_.size() || words.size() != 2) {
            invalid("check_sequences: expected q, k, v, four tables and words of two sides");
        }
        const Fact* const side = &facts_[tables];
        const int64_t rows_q = facts_[0].dims[0];
        const int64_t rows_k = facts_[1].dims[0];
        const SideWords of_q(words[0]);
        const SideWords of_k(words[1]);
        check_data(facts_[0], of_q, ROWS);
        check_data(facts_[1], of_k, ROWS);
        check_data(facts_[2], of_k, VALUES);
        for (size_t i = 3; i < tables; ++i) {
            const Fact& x = facts_[i];
            if (!x.is_given || x.dims[row_axis(x.axes)] == rows_q) continue;
            of_q.refuse("a result or gradient has ", x.dims[row_axis(x.axes)], " rows, ",
                        of_q[ROWS], " has ", rows_q);
        }
        if (facts_[2].dims[0] != rows_k) {
            of_k.refuse(of_k[VALUES], " has ", facts_[2].dims[0], " rows, ", of_k[ROWS], " has ",
                        rows_k);
        }
        const bool has_work = rows_q > 0 && rows_k > 0 && side[0].dims[0] > 1;
        // Nothing of a device tensor is read: any row may belong to no sequence.
        const bool is_readable =
            std::all_of(side, side + 4, [](const Fact& x) { return !x.is_given || x.is_host; });
        if (!is_readable) {
            return {capacity_of(limit_q), capacity_of(limit_k), false, false, has_work};
        }
        const auto [longest_q, is_full_q] = SideCheck(side[0], side[2], of_q).run(rows_q, limit_q);
        const auto [longest_k, is_full_k] = SideCheck(side[1], side[3], of_k).run(rows_k, limit_k);
        if (side[0].dims[0] != side[1].dims[0]) {
            of_k.refuse(of_k[CU], " has shape (", side[1].dims[0], ",), expected (",
                        side[0].dims[0], ",)");
        }
        return {capacity_of(std::max(longest_q, limit_q)),
                capacity_of(std::max(longest_k, limit_k)), is_full_q && has_work,
                is_full_k && has_work, has_work};
    }

private:
    static void check_data(const Fact& x, const SideWords& words, Word which) {
        if (!x.is_given) words.refuse(words[which], " is None, expected a tensor");
        if (x.axes == 3) return;
        words.refuse(words[which], " has ", x.axes, " axes, expected 3: rows, heads, head_dim");
    }

    void read(py::handle tensor, bool is_free, Fact& fact) {
        fact.is_given = true;
        fact.object = tensor;
        if (!borrow(tensor, fact)) read_methods(tensor, fact);
        const auto address = reinterpret_cast<intptr_t>(fact.address);
        add(address == 0 ? MAX_ALIGNMENT : std::min<int64_t>(address & -address, MAX_ALIGNMENT));
        add(static_cast<int64_t>(fact.type));
        add(static_cast<int64_t>(fact.axes));
        for (size_t axis = 0; axis < fact.axes; ++axis) {
            const int64_t dim = fact.dims[axis];
            add(is_free && axis == row_axis(fact.axes) ? (dim > 1 ? -1 : -2) : dim);
            add(dim > 1 ? fact.strides[axis] : -1);  // of one element it means nothing
        }
    }

    // False where DLPack's C functions are missing or cannot describe the tensor.
    bool borrow(py::handle tensor, Fact& fact) {
        const auto function = borrow_of(tensor);
        if (!function) return false;
        dlpack::Tensor view{};
        if (function(tensor.ptr(), &view) != 0) {
            PyErr_Clear();
            return false;
        }
        if (static_cast<size_t>(view.ndim) > MAX_AXES || (view.ndim > 0 && !view.strides)) {
            return false;
        }
        fact.axes = static_cast<size_t>(view.ndim);
        std::copy_n(view.shape, fact.axes, fact.dims.begin());
        std::copy_n(view.strides, fact.axes, fact.strides.begin());
        fact.type = dlpack::data_type_of(view.dtype).value_or(DataType::NOT_SET);
        if (view.data) fact.address = static_cast<char*>(view.data) + view.byte_offset;
        fact.is_host = view.device.type == dlpack::CPU;
        if (fact.is_host) {
            key_.push_back('c');
        } else {
            add(view.device.type);
            add(view.device.id);
        }
        return true;
    }

    void read_methods(py::handle tensor, Fact& fact) {
        if (!py::hasattr(tensor, names().data_ptr)) {
            invalid("got ", std::string(py::str(py::type::handle_of(tensor).attr("__name__"))),
                    ", expected a tensor");
        }
        fact.address = reinterpret_cast<char*>(
            PyLong_AsUnsignedLongLong(call_method(tensor, names().data_ptr).ptr()));
        fact.axes = read_integers(attribute(tensor, names().shape), fact.dims);
        read_integers(call_method(tensor, names().stride), fact.strides);
        fact.type = type_of_dtype(attribute(tensor, names().dtype));
        fact.is_host = attribute(tensor, names().is_cpu).ptr() == Py_True;
        if (fact.is_host) {
            key_.push_back('c');
        } else {
            key_ += std::string(py::str(attribute(tensor, names().device)));
        }
    }

    void add(int64_t value) { key_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }

    py::tuple tensors_;  // whose memory the addresses are in
    std::vector<Fact> facts_;
    std::string key_;
};

// A plan with the uids of the tensors that a kind of call brings, in the order it brings them.
class PlanCall {
public:
    PlanCall(std::shared_ptr<ExecutionPlan> plan, std::vector<std::optional<int64_t>> inputs,
             std::vector<int64_t> outputs, int64_t scale)
        : plan_(std::move(plan)), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
        const PlanTensor* tensor = plan_->find(scale);
        if (!tensor) invalid("PlanCall: uid ", scale, " is no tensor of the plan's graph");
        scale_ = scale;
        is_scale_double_ = tensor->data_type == DataType::DOUBLE;
        clears_ = plan_->clears_outputs();
    }

    size_t workspace_size() const { return plan_->workspace_size(); }
    bool clears() const { return clears_; }

    // outputs: addresses; sizes: bytes of their memory, to be cleared, or nothing. Checks what the
    // plan checks; throws before anything is written.
    void run(const TensorFacts& facts, const py::tuple& outputs, double scale, uintptr_t workspace,
             uintptr_t stream, const py::tuple& sizes) const {
        if (facts.facts().size() != inputs_.size() || outputs.size() != outputs_.size()) {
            invalid("PlanCall: got ", facts.facts().size(), " inputs and ", outputs.size(),
                    " outputs, expected ", inputs_.size(), " and ", outputs_.size());
        }
        std::vector<Binding> pack;
        pack.reserve(inputs_.size() + outputs_.size() + 1);
        for (size_t i = 0; i < inputs_.size(); ++i) {
            const Fact& fact = facts.facts()[i];
            if (!inputs_[i] || !fact.is_given) continue;
            if (lacks_memory(fact)) {
                invalid(plan_->find(*inputs_[i])->label, memory_message(fact));
            }
            add(pack, *inputs_[i], fact.address);
        }
        for (size_t i = 0; i < outputs_.size(); ++i) {
            const auto address = PyLong_AsUnsignedLongLong(outputs[i].ptr());
            if (PyErr_Occurred()) throw py::error_already_set();
            add(pack, outputs_[i], reinterpret_cast<char*>(address));
        }
        const std::vector<raggeddnnClearedOutput_t> cleared = cleared_outputs(sizes);
        const float narrow = static_cast<float>(scale);
        const void* value = is_scale_double_ ? static_cast<const void*>(&scale) : &narrow;
        pack.push_back({scale_, const_cast<void*>(value), -1});
        hipdnnHandle& handle = hipdnnHandle::of_thread(plan_->device());
        handle.set_stream(reinterpret_cast<void*>(stream));
        const py::gil_scoped_release without_gil;
        auto* const memory = reinterpret_cast<void*>(workspace);
        if (cleared.empty()) {
            plan_->execute(handle, pack, memory);
        } else {
            plan_->execute_and_clear(handle, pack, memory, cleared);
        }
    }

private:
    std::vector<raggeddnnClearedOutput_t> cleared_outputs(const py::tuple& sizes) const {
        std::vector<raggeddnnClearedOutput_t> made;
        if (sizes.empty()) return made;
        if (sizes.size() != outputs_.size()) {
            invalid("PlanCall: got ", sizes.size(), " sizes, expected ", outputs_.size());
        }
        made.reserve(sizes.size());
        for (size_t i = 0; i < sizes.size(); ++i) {
            const auto bytes = PyLong_AsLongLong(sizes[i].ptr());
            if (PyErr_Occurred()) throw py::error_already_set();
            made.push_back({outputs_[i], bytes});
        }
        return made;
    }
    static void add(std::vector<Binding>& pack, int64_t uid, char* address) {
        pack.push_back({uid, address ? static_cast<void*>(address) : nothing, -1});
    }

    std::shared_ptr<ExecutionPlan> plan_;
    std::vector<std::optional<int64_t>> inputs_;
    std::vector<int64_t> outputs_;
    int64_t scale_ = 0;
    bool is_scale_double_ = false;
    bool clears_ = false;
};

}  // namespace

void bind_calls(py::module_& m) {
    py::class_<TensorFacts>(m, "TensorFacts",
                            "What plans depend on in some tensors (or None), read once.")
        .def(py::init<py::tuple, size_t>(), py::arg("tensors"), py::arg("free"))
        .def_property_readonly("key", &TensorFacts::key,
                               "Equal for tensors that one plan serves: types, devices, dims, "
                               "strides, alignments.")
        .def(
            "check_sequences", &TensorFacts::check_sequences, py::arg("tables"), py::arg("limit_q"),
            py::arg("limit_k"), py::arg("words"),
            "Of q, k, v and, from index `tables` on, cumulative and valid lengths: checks those in "
            "host memory against rows and longest lengths. Returns S_max of both sides, whether "
            "every row of q and of k is a sequence's, and whether there is anything to compute. "
            "Raises InvalidValueError in the `words` of the caller's arguments.");

    py::class_<PlanCall>(m, "PlanCall", "A plan, executed by the addresses of a kind of call.")
        .def(py::init<std::shared_ptr<ExecutionPlan>, std::vector<std::optional<int64_t>>,
                      std::vector<int64_t>, int64_t>(),
             py::arg("plan"), py::arg("inputs"), py::arg("outputs"), py::arg("scale"))
        .def_property_readonly("workspace_size", &PlanCall::workspace_size, "In bytes.")
        .def_property_readonly("clears", &PlanCall::clears,
                               "Whether run() may be given sizes: then it also clears, of ragged "
                               "outputs, what no sequence has.")
        .def("run", &PlanCall::run, py::arg("facts"), py::arg("outputs"), py::arg("scale"),
             py::arg("workspace") = 0, py::arg("stream") = 0, py::arg("sizes") = py::tuple());
}

}  // namespace raggeddnn::python
