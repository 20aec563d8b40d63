// One small capture of every kind, written for the tests.
#pragma once

namespace tapeback::test {

constexpr const char *mmiotraceText =
    "VERSION 20070824\n"
    "PCIDEV 0310 10ec8139 1f f0000004 0 c001 0 0 0 fe000000 1000 0 100 0 0 0 10000 driver x\n"
    "MAP 1.000001 1 0xf0000000 0xffffb7b187000000 0x1000 0x0 0\n"
    "R 4 1.000002 1 0xf0000010 0xdeadbeef 0x0 0\n"
    "W 2 1.000003 1 0xf0000ffe 0x1234 0xffffffffc0000000 0\n"
    "MARK 0.000000 Lost 7 events.\n"
    "R 1 1.000005 1 0x12345 0xff 0x0 0\n"
    "UNKNOWN 1.000006 1 0xf0000020 f3,a4,90 0x0 0\n"
    "MARK 1.000007 hello there\n"
    "UNMAP 1.000008 1 0x0 0\n";

constexpr const char *vfioTraceText =
    "warning: something of the environment\n"
    "2026-08-05T02:10:02.000001Z vfio_region_setup Device 0000:09:00.0, region 0 \"x\", flags: 0x7, offset: "
    "0x0, "
    "size: 0x10000\n"
    "2026-08-05T02:10:02.000002Z vfio_region_read  (0000:09:00.0:region0+0x100, 4) = 0x10000000\n"
    "2026-08-05T02:10:02.000003Z vfio_region_write  (0000:09:00.0:region2+0x58c, 0x352414c, 4)\n"
    "2026-08-05T02:10:02.000004Z vfio_pci_read_config (0000:09:00.0, @0x4, len=0x2) 0x103\n"
    "2026-08-05T02:10:02.000005Z vfio_pci_write_config (0000:09:00.0, @0x4, 0x107, len=0x2)\n"
    "--\n"
    "2026-08-05T02:10:02.000006Z vfio_msi_interrupt (0000:09:00.0) vector 3 0xfee00000/0x4021\n"
    "2026-08-05T02:10:02.000007Z vfio_region_write  (0000:0a:00.1:region0+0x8,\n"
    " 0x1, 8)\n";

constexpr const char *maliText = "0,R,0x00000000,60a00002\n"
                                 "521,W,0x00000004,0000000f\n";

constexpr const char *nvmeText =
    "# tracer: nop\n"
    "   fio-3549    [000] .....   232.000001: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=2, cmdid=7, nsid=3, "
    "flags=0x0, "
    "meta=0x0, cmd=(nvme_cmd_read slba=0, len=7)\n"
    "   fio-3549    [000]   232.000002: nvme_setup_cmd: nvme0: qid=2, cmdid=8, nsid=0x3, flags=0x0, meta=0x0 "
    "cmd=(nvme_cmd_flush)\n"
    "   a [1] b-1   [000] d.h..   232.000003: nvme_sq: nvme0: disk=nvme0n1, qid=2, head=79, tail=80\n"
    "   <idle>-0    [000] d.h..   232.000004: nvme_complete_rq: nvme0: disk=nvme0n1, qid=2, cmdid=7, "
    "res=0x5, "
    "retries=0, flags=0x0, status=0x4002\n"
    "CPU:1 [LOST 12 EVENTS]\n"
    "   <idle>-0    [000] d.h..   232.000005: block_rq_issue: 259,0 WFS 4096\n"
    "   <idle>-0    [000] d.h..   232.000006: nvme_complete_rq: nvme0: qid=2, cmdid=99, res=0x0, retries=0, "
    "flags=0x0, status=0x0\n";

constexpr const char *nvdlaTxnText = "# a comment\n"
                                     "load_mem 0x80000000 0x8 in.dat\n"
                                     "write_reg 0xffff100b 0xf0a5a500 #NAME\n"
                                     "read_reg 0xffff100b 0xffffffe0 0xf0a5a500\n"
                                     "read_reg 0xffff0003 0x1 0x3\n"
                                     "wait\n"
                                     "dump_mem 0x80002000 0x4 out.dat\n";

constexpr const char *nvdlaCfgText = "// a comment\n"
                                     "mem_init(pri_mem, 0x80000400, 0x20, ALL_ZERO);\n"
                                     "mem_load(pri_mem, 0x80000400, \"in.dat\");\n"
                                     "reg_write(NVDLA_GLB.S_INTR_MASK_0, 0x3f03fc);\n"
                                     "reg_read(NVDLA_GLB.S_INTR_STATUS_0);\n"
                                     "reg_read_check(NVDLA_GLB.S_INTR_MASK_0, 0x3f03fc);\n"
                                     "poll_reg_equal(NVDLA_GLB.S_INTR_STATUS_0, 0x1); // done\n"
                                     "intr_notify(PDP_0, sync_id_0);\n"
                                     "check_crc(sync_id_0, 1, 0x90000000, 0x10, 0x12345678);\n"
                                     "check_nothing(sync_id_0);\n";

constexpr const char *qtestText = "[I 0.000001] OPENED\n"
                                  "[R +0.000010] outl 0xcf8 0x80001010\n"
                                  "[S +0.000011] OK\n"
                                  "[R +0.000020] inw 0xcfc\n"
                                  "[S +0.000021] OK 0x1af4\n"
                                  "OK 0x1af4\n"
                                  "[R +0.000030] write 0x1000 0x4 0xaabb\n"
                                  "[S +0.000031] OK\n"
                                  "[R +0.000040] read 0x1000 0x4\n"
                                  "[S +0.000041] OK 0xaabb0000\n"
                                  "[R +0.000050] clock_step 100\n"
                                  "[S +0.000051] FAIL Unknown command\n"
                                  "[S +0.000052] IRQ raise 5\n"
                                  "[R +0.000060] writeq 0xfebf0000 010\n";

constexpr const char *vcdText =
    "$timescale 10 ps $end\n"
    "$scope module top $end\n"
    "$var wire 1 ! aclk $end\n"
    "$var wire 1 a s_awvalid $end $var wire 1 b s_awready $end\n"
    "$var wire 16 c s_awaddr [15:0] $end\n"
    "$var wire 1 d s_wvalid $end\n$var wire 1 e s_wready $end\n"
    "$var wire 32 f s_wdata [31:0] $end\n$var wire 4 g s_wstrb [3:0] $end\n"
    "$var wire 1 h s_bvalid $end\n$var wire 1 i s_bready $end\n"
    "$var wire 2 j s_bresp [1:0] $end\n"
    "$var wire 1 k s_arvalid $end\n$var wire 1 l s_arready $end\n"
    "$var wire 16 m s_araddr [15:0] $end\n"
    "$var wire 1 n s_rvalid $end\n$var wire 1 o s_rready $end\n"
    "$var wire 32 p s_rdata [31:0] $end\n$var wire 2 q s_rresp [1:0] $end\n"
    "$upscope $end\n$enddefinitions $end\n"
    "#0\n0! 0a 0d 0h 0k 0n 1b 1e 1i 1l 1o b0 j b0 q b1111 g\n"
    // A write of the two upper bytes: address and data in one cycle, answer later.
    "#10\n1a 1d b100000 c b11011110101011011011111011101111 f b1100 g\n"
    "#20\n1!\n0a\n0d\n" // Falls with the clock: what counts is before.
    "#30\n0!\n1h\n#40\n1!\n0h\n#50\n0!\n"
    // A read that fails, then one that is answered by x, then one never answered.
    "1k b1000 m\n#60\n1!\n0k\n#70\n0! 1n b10 q b1 p\n#80\n1! 0n\n"
    "#90\n0! 1k b1100 m b0 q\n#100\n1! 0k\n#110\n0! 1n bx1 p\n#120\n1! 0n\n"
    "#130\n0! 1k b10000 m\n#140\n1! 0k\n#150.5\n0!\n";

} // namespace tapeback::test
