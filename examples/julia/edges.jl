# Edges of an image: two filters with bias and ReLU, on the CPU and, where there is one, a GPU.
#
#   julia edges.jl IMAGE.pgm
#
# The library is libim2win where the system's loader finds it (LD_LIBRARY_PATH).

const lib = "libim2win"
const CPU = Int32(-1)
const FLOAT32 = Int32(2)
const RELU = Int32(1)

# Julia's arrays have their first index fastest: input[w, h, c, n] is C's dense NCHW.
mutable struct Conv2dDesc
    struct_size::UInt32
    operation::Int32
    dtype::Int32
    math::Int32
    n::Int64
    c::Int64
    h::Int64
    w::Int64
    k::Int64
    r::Int64
    s::Int64
    stride_h::Int64
    stride_w::Int64
    padding_top::Int64
    padding_bottom::Int64
    padding_left::Int64
    padding_right::Int64
    dilation_h::Int64
    dilation_w::Int64
    groups::Int64
    input_layout::Int32
    filter_layout::Int32
    output_layout::Int32
    residual_layout::Int32
    input_strides::NTuple{4,Int64}
    filter_strides::NTuple{4,Int64}
    output_strides::NTuple{4,Int64}
    residual_strides::NTuple{4,Int64}
    bias_dtype::Int32
    has_residual::Int32
    bias_stride::Int64
    alpha::Float64
    beta::Float64
    activation::Int32
    reserved::Int32
    activation_params::NTuple{2,Float64}
    function Conv2dDesc()
        desc = new()
        check(ccall((:im2win_conv2d_desc_init, lib), Cint, (Ref{Conv2dDesc}, Csize_t), desc,
                    sizeof(Conv2dDesc)))
        desc
    end
end

mutable struct PlanOptions
    struct_size::UInt32
    device::Int32
    threads::Int32
    packed_filter::Int32
    workspace_limit_bytes::UInt64
    algorithm::Ptr{Cchar}
    function PlanOptions()
        options = new()
        check(ccall((:im2win_plan_options_init, lib), Cint, (Ref{PlanOptions}, Csize_t), options,
                    sizeof(PlanOptions)))
        options
    end
end

last_error() = unsafe_string(ccall((:im2win_last_error, lib), Ptr{Cchar}, ()))
check(status) = status == 0 || error(last_error())

# Changes of brightness from left to right and from top to bottom, above 100.
const filter = reshape(Float32[-1, 0, 1, -2, 0, 2, -1, 0, 1,
                               -1, -2, -1, 0, 0, 0, 1, 2, 1], 3, 3, 1, 2)
const bias = Float32[-100, -100]

"A PGM file of plain text, as [width, height]."
function read_image(path)
    words = split(read(path, String))
    words[1] == "P2" || error("not a plain PGM file")
    width, height = parse.(Int, words[2:3])
    reshape(parse.(Float32, words[5:end]), width, height)
end

function create_plan(image, device)
    desc = Conv2dDesc()
    desc.n = desc.c = 1
    desc.w, desc.h = size(image)
    desc.s, desc.r, _, desc.k = size(filter)
    desc.padding_top = desc.padding_bottom = desc.padding_left = desc.padding_right = 1
    desc.bias_dtype = FLOAT32
    desc.activation = RELU
    options = PlanOptions()
    options.device = device
    plan = Ref{Ptr{Cvoid}}(C_NULL)
    check(ccall((:im2win_plan_create, lib), Cint,
                (Ref{Conv2dDesc}, Ref{PlanOptions}, Ref{Ptr{Cvoid}}), desc, options, plan))
    plan[]
end

function workspace_bytes(plan)
    bytes = Ref{Csize_t}(0)
    check(ccall((:im2win_plan_workspace_bytes, lib), Cint, (Ptr{Cvoid}, Ref{Csize_t}), plan, bytes))
    Int(bytes[])
end

function convolve(plan, input, filter, bias, output, workspace, bytes)
    check(ccall((:im2win_conv2d, lib), Cint,
                (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid},
                 Csize_t, Ptr{Cvoid}),
                plan, input, filter, bias, C_NULL, output, workspace, bytes, C_NULL))
end

function run_on_cpu!(output, plan, image)
    bytes = workspace_bytes(plan)
    workspace = Vector{UInt8}(undef, bytes + 256)  # of which 256 bytes align the rest
    GC.@preserve workspace begin
        first = pointer(workspace)
        convolve(plan, image, filter, bias, output, first + (256 - UInt(first) % 256), bytes)
    end
end

function on_gpu(bytes)
    memory = Ref{Ptr{Cvoid}}(C_NULL)
    bytes == 0 && return C_NULL
    check(ccall((:im2win_cuda_alloc, lib), Cint, (Int32, Csize_t, Ptr{Cvoid}, Ref{Ptr{Cvoid}}),
                0, bytes, C_NULL, memory))
    memory[]
end

function gpu_copy(target, source, bytes)
    check(ccall((:im2win_cuda_copy, lib), Cint,
                (Int32, Ptr{Cvoid}, Ptr{Cvoid}, Csize_t, Ptr{Cvoid}),
                0, target, source, bytes, C_NULL))
    check(ccall((:im2win_cuda_synchronize, lib), Cint, (Int32, Ptr{Cvoid}), 0, C_NULL))
end

function run_on_gpu!(output, plan, image)
    bytes = workspace_bytes(plan)
    sources = (image, filter, bias)
    inputs = map(source -> on_gpu(sizeof(source)), sources)
    foreach((memory, source) -> gpu_copy(memory, source, sizeof(source)), inputs, sources)
    result, workspace = on_gpu(sizeof(output)), on_gpu(bytes)
    convolve(plan, inputs..., result, workspace, bytes)
    gpu_copy(output, result, sizeof(output))
    for memory in (inputs..., result, workspace)
        check(ccall((:im2win_cuda_free, lib), Cint, (Int32, Ptr{Cvoid}, Ptr{Cvoid}),
                    0, memory, C_NULL))
    end
end

function expected(image, k, p, q)
    width, height = size(image)
    sum = bias[k]
    for r in 1:3, s in 1:3
        y, x = p + r - 2, q + s - 2
        if 1 <= y <= height && 1 <= x <= width
            sum += filter[s, r, 1, k] * image[x, y]
        end
    end
    max(sum, 0)
end

function find_edges(image, device)
    plan = create_plan(image, device)
    output = fill(NaN32, size(image)..., 2)
    device == CPU ? run_on_cpu!(output, plan, image) : run_on_gpu!(output, plan, image)
    # The outputs are whole numbers: they have to be right to the last bit.
    all(output[q, p, k] == expected(image, k, p, q)
        for q in axes(output, 1), p in axes(output, 2), k in axes(output, 3)) || error("wrong")
    name = Ref{Ptr{Cchar}}(C_NULL)
    check(ccall((:im2win_plan_algorithm, lib), Cint, (Ptr{Cvoid}, Ref{Ptr{Cchar}}), plan, name))
    println(device == CPU ? "cpu" : "cuda", ": ", unsafe_string(name[]), ", sum ", Int(sum(output)))
    ccall((:im2win_plan_destroy, lib), Cvoid, (Ptr{Cvoid},), plan)
end

length(ARGS) == 1 || error("usage: julia edges.jl IMAGE.pgm")
image = read_image(ARGS[1])
find_edges(image, CPU)
count = Ref{Int32}(0)
if ccall((:im2win_cuda_device_count, lib), Cint, (Ref{Int32},), count) == 0
    find_edges(image, Int32(0))
else
    println("no GPU: ", last_error())
end
