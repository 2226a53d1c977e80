// SPDX-License-Identifier: GPL-2.0-only
/*
 * The NAPI weight of a network device: how many packets one poll may take.
 *
 * A driver chooses it once, when it adds a NAPI instance, and the kernel has no
 * way to change it afterwards. Here it is a module parameter:
 *
 *	echo "eth0 8" > /sys/module/hypertare_napi/parameters/weight
 *	cat /sys/module/hypertare_napi/parameters/weight
 *
 * And it counts polls by the packets that they found, as long as somebody has
 * this file open:
 *
 *	cat /proc/hypertare_napi_polls
 *
 * README.md has the formats, the errors, and why these are files.
 */
#include <linux/capability.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <net/net_namespace.h>

/*
 * A softirq looks at its budget (netdev_budget, 300) and at the clock between
 * polls only. A poll of this many packets already outlasts both.
 */
#define MAX_WEIGHT 1024

/* An instance whose weight was changed, and how it was before. */
struct change {
	struct list_head list;
	struct net_device *dev;
	struct napi_struct *napi;
	unsigned int id;
	int before;
	int after;
};

/* Both under RTNL. */
static LIST_HEAD(changes);
static bool ready;

/*
 * A device's instances are under RTNL, and since Linux 6.14 under the device's
 * own lock. RTNL is taken first, as everywhere in the kernel.
 */
static void lock_instances(struct net_device *dev)
{
	ASSERT_RTNL();
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	netdev_lock(dev);
#endif
}

static void unlock_instances(struct net_device *dev)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	netdev_unlock(dev);
#endif
}

/*
 * virtio_net marks a transmit instance that it does not use with a weight of 0,
 * and goes by that when it sends: such a one is neither shown nor set.
 */
static bool in_use(const struct napi_struct *napi)
{
	return napi->weight > 0;
}

static struct change *find_change(const struct napi_struct *napi)
{
	struct change *change;

	list_for_each_entry(change, &changes, list)
		if (change->napi == napi && change->id == napi->napi_id)
			return change;
	return NULL;
}

static int remember(struct net_device *dev, struct napi_struct *napi)
{
	struct change *change;

	if (find_change(napi))
		return 0;
	change = kmalloc(sizeof(*change), GFP_KERNEL);
	if (!change)
		return -ENOMEM;
	change->dev = dev;
	change->napi = napi;
	change->id = napi->napi_id;
	change->before = napi->weight;
	change->after = napi->weight;
	list_add(&change->list, &changes);
	return 0;
}

static void forget(struct change *change)
{
	list_del(&change->list);
	kfree(change);
}

/* A poll reads the weight once and hands it to the driver: the next one has the new one. */
static void set_one(struct napi_struct *napi, int weight)
{
	find_change(napi)->after = weight;
	WRITE_ONCE(napi->weight, weight);
}

static int count_instances(struct net_device *dev)
{
	struct napi_struct *napi;
	int count = 0;

	list_for_each_entry(napi, &dev->napi_list, dev_list)
		count += in_use(napi);
	return count;
}

/* One weight for all instances, or one for each, in the order in which they are shown. */
static int set_device(struct net_device *dev, const int *weights, int given)
{
	int instances = count_instances(dev);
	struct napi_struct *napi;
	int index = 0;
	int error;

	if (!instances)
		return -EOPNOTSUPP;
	if (given != 1 && given != instances)
		return -EINVAL;
	list_for_each_entry(napi, &dev->napi_list, dev_list) {
		error = in_use(napi) ? remember(dev, napi) : 0;
		if (error)
			return error;
	}
	list_for_each_entry(napi, &dev->napi_list, dev_list)
		if (in_use(napi))
			set_one(napi, weights[given == 1 ? 0 : index++]);
	return 0;
}

/* "eth0 8 8" in pieces; the text is changed. Gives the number of weights or an error. */
static int parse(char *text, char **name, int *weights, int most)
{
	int given = 0;
	char *word;
	int error;

	text = strim(text);
	*name = strsep(&text, " \t");
	while ((word = strsep(&text, " \t"))) {
		if (!*word)
			continue;
		if (given == most)
			return -EINVAL;
		error = kstrtoint(word, 10, &weights[given]);
		if (error)
			return error;
		if (weights[given] < 1 || weights[given] > MAX_WEIGHT)
			return -ERANGE;
		given++;
	}
	return **name && given ? given : -EINVAL;
}

static int set_named(const char *name, const int *weights, int given)
{
	struct net *net = current->nsproxy->net_ns;
	struct net_device *dev;
	int error = -ENODEV;

	if (!ns_capable(net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	rtnl_lock();
	dev = ready ? __dev_get_by_name(net, name) : NULL;
	if (dev) {
		lock_instances(dev);
		error = set_device(dev, weights, given);
		unlock_instances(dev);
	}
	rtnl_unlock();
	return error;
}

static int weight_set(const char *value, const struct kernel_param *param)
{
	const int most = 512;
	char *text = kstrdup(value, GFP_KERNEL);
	int *weights = kcalloc(most, sizeof(*weights), GFP_KERNEL);
	int result = -ENOMEM;
	char *name;

	if (text && weights)
		result = parse(text, &name, weights, most);
	if (result > 0)
		result = set_named(name, weights, result);
	kfree(weights);
	kfree(text);
	return result;
}

static int show_device(struct net_device *dev, char *buffer, int at)
{
	struct napi_struct *napi;

	if (!count_instances(dev))
		return at;
	at += scnprintf(buffer + at, PAGE_SIZE - at, "%s", dev->name);
	list_for_each_entry(napi, &dev->napi_list, dev_list)
		if (in_use(napi))
			at += scnprintf(buffer + at, PAGE_SIZE - at, " %d", napi->weight);
	return at + scnprintf(buffer + at, PAGE_SIZE - at, "\n");
}

/* Half a list would pass for a whole one: what does not fit into a page is an error. */
static int weight_get(char *buffer, const struct kernel_param *param)
{
	struct net *net = current->nsproxy->net_ns;
	struct net_device *dev;
	int at = 0;

	rtnl_lock();
	for_each_netdev(net, dev) {
		lock_instances(dev);
		at = show_device(dev, buffer, at);
		unlock_instances(dev);
	}
	rtnl_unlock();
	return at < PAGE_SIZE - 1 ? at : -EFBIG;
}

static const struct kernel_param_ops weight_ops = {
	.set = weight_set,
	.get = weight_get,
};
module_param_cb(weight, &weight_ops, NULL, 0644);
MODULE_PARM_DESC(weight, "write \"DEVICE WEIGHT\", read all devices with their weights");

/*
 * An instance whose polls are counted by the packets that they found, for each
 * CPU. Its function is wrapped and not traced: the tracepoint napi:napi_poll takes
 * twice as many instructions, and with a weight of 1 they are in every packet.
 *
 * Instances are compared, and followed only in the list of a device that is registered.
 */
struct counted {
	struct net_device *dev;
	struct napi_struct *napi;
	int (*poll)(struct napi_struct *napi, int budget);
	u64 __percpu *by_packets;
};

#define MAX_COUNTED 256
#define POLLS_FILE "hypertare_napi_polls"

/* Changed under RTNL. One that was filled stays until the last reader has gone. */
static struct counted counted[MAX_COUNTED];
static unsigned int readers;

/* Each instruction matters. An instance that comes here is in the table: it stands there first. */
static int notrace counting_poll(struct napi_struct *napi, int budget)
{
	const struct counted *one = counted;
	unsigned int packets;
	int work;

	while (unlikely(READ_ONCE(one->napi) != napi))
		one++;
	work = READ_ONCE(one->poll)(napi, budget);
	packets = work;
	if (unlikely(packets > MAX_WEIGHT))
		packets = MAX_WEIGHT;
	this_cpu_inc(one->by_packets[packets]);
	return work;
}

/* The place of an instance, or one that was never filled. */
static struct counted *place_of(const struct napi_struct *napi)
{
	struct counted *one;

	for (one = counted; one < counted + MAX_COUNTED; one++)
		if (one->napi == napi || !one->by_packets)
			return one;
	return NULL;
}

static int count_instance(struct net_device *dev, struct napi_struct *napi)
{
	struct counted *one;

	if (napi->poll == counting_poll)
		return 0;
	one = place_of(napi);
	if (!one)
		return -ENOSPC;
	if (!one->by_packets)
		one->by_packets = __alloc_percpu((MAX_WEIGHT + 1) * sizeof(u64), sizeof(u64));
	if (!one->by_packets)
		return -ENOMEM;
	one->dev = dev;
	WRITE_ONCE(one->poll, napi->poll);
	WRITE_ONCE(one->napi, napi);
	/* Who is called by the new function sees all of the above. */
	smp_store_release(&napi->poll, counting_poll);
	return 0;
}

static int count_device(struct net_device *dev)
{
	struct napi_struct *napi;
	int error = 0;

	lock_instances(dev);
	list_for_each_entry(napi, &dev->napi_list, dev_list) {
		error = in_use(napi) ? count_instance(dev, napi) : 0;
		if (error)
			break;
	}
	unlock_instances(dev);
	return error;
}

/* A driver that has added an instance anew has put its own function there. */
static void let_go(const struct net_device *dev)
{
	struct napi_struct *napi;

	list_for_each_entry(napi, &dev->napi_list, dev_list)
		if (napi->poll == counting_poll)
			WRITE_ONCE(napi->poll, place_of(napi)->poll);
}

/* A device in the table is registered: one that goes is taken out. */
static void let_all_go(void)
{
	struct counted *one;

	for (one = counted; one < counted + MAX_COUNTED; one++)
		if (one->dev) {
			lock_instances(one->dev);
			let_go(one->dev);
			unlock_instances(one->dev);
		}
}

static void stop_counting(void)
{
	struct counted *one;

	if (--readers)
		return;
	let_all_go();
	/* Polls are in a critical section of RCU: after this none is in counting_poll() any more. */
	synchronize_net();
	for (one = counted; one < counted + MAX_COUNTED; one++) {
		free_percpu(one->by_packets);
		*one = (struct counted){ };
	}
}

static int start_counting(struct net *net)
{
	struct net_device *dev;
	int error = 0;

	readers++;
	for_each_netdev(net, dev) {
		error = count_device(dev);
		if (error)
			break;
	}
	if (error)
		stop_counting();
	return error;
}

/* Whether each instance that polls is counted: a driver may have added some since. */
static bool all_counted(struct net_device *dev)
{
	struct napi_struct *napi;
	bool all = true;

	lock_instances(dev);
	list_for_each_entry(napi, &dev->napi_list, dev_list)
		if (in_use(napi) && napi->poll != counting_poll)
			all = false;
	unlock_instances(dev);
	return all;
}

static u64 polls_with(const struct net_device *dev, int packets)
{
	const struct counted *one;
	u64 sum = 0;
	int cpu;

	for (one = counted; one < counted + MAX_COUNTED; one++)
		if (one->dev == dev)
			for_each_possible_cpu(cpu)
				sum += READ_ONCE(per_cpu_ptr(one->by_packets, cpu)[packets]);
	return sum;
}

static bool is_counted(const struct net_device *dev)
{
	const struct counted *one;

	for (one = counted; one < counted + MAX_COUNTED; one++)
		if (one->dev == dev)
			return true;
	return false;
}

static int show_polls(struct seq_file *file, struct net_device *dev)
{
	int packets;
	u64 count;

	if (!is_counted(dev))
		return 0;
	if (!all_counted(dev))
		return -ESTALE;
	seq_puts(file, dev->name);
	for (packets = 0; packets <= MAX_WEIGHT; packets++) {
		count = polls_with(dev, packets);
		if (count)
			seq_printf(file, " %d:%llu", packets, count);
	}
	seq_putc(file, '\n');
	return 0;
}

static int polls_show(struct seq_file *file, void *unused)
{
	struct net_device *dev;
	int error = 0;

	rtnl_lock();
	for_each_netdev(current->nsproxy->net_ns, dev)
		if (!error)
			error = show_polls(file, dev);
	rtnl_unlock();
	return error;
}

static int polls_open(struct inode *inode, struct file *file)
{
	int error;

	rtnl_lock();
	error = start_counting(current->nsproxy->net_ns);
	rtnl_unlock();
	if (error)
		return error;
	error = single_open(file, polls_show, NULL);
	if (error) {
		rtnl_lock();
		stop_counting();
		rtnl_unlock();
	}
	return error;
}

static int polls_release(struct inode *inode, struct file *file)
{
	rtnl_lock();
	stop_counting();
	rtnl_unlock();
	return single_release(inode, file);
}

static const struct proc_ops polls_ops = {
	.proc_open = polls_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = polls_release,
};

/* Only what still is in the device's list, and still has the weight that was set here. */
static void put_back(struct change *change)
{
	struct net_device *dev = change->dev;
	struct napi_struct *napi;

	lock_instances(dev);
	list_for_each_entry(napi, &dev->napi_list, dev_list)
		if (napi == change->napi && napi->napi_id == change->id &&
		    napi->weight == change->after)
			WRITE_ONCE(napi->weight, change->before);
	unlock_instances(dev);
}

static int on_event(struct notifier_block *block, unsigned long event, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);
	struct change *change, *next;
	struct counted *one;

	if (event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	list_for_each_entry_safe(change, next, &changes, list)
		if (change->dev == dev)
			forget(change);
	/* It is down: nobody polls it. An instance of another device may come to stand where its own did. */
	let_go(dev);
	for (one = counted; one < counted + MAX_COUNTED; one++)
		if (one->dev == dev) {
			one->dev = NULL;
			WRITE_ONCE(one->napi, NULL);
		}
	return NOTIFY_DONE;
}

static struct notifier_block notifier = { .notifier_call = on_event };

static int __init hypertare_napi_init(void)
{
	int error = register_netdevice_notifier(&notifier);

	if (error)
		return error;
	rtnl_lock();
	ready = true;
	rtnl_unlock();
	if (!proc_create(POLLS_FILE, 0400, NULL, &polls_ops)) {
		unregister_netdevice_notifier(&notifier);
		return -ENOMEM;
	}
	return 0;
}

static void __exit hypertare_napi_exit(void)
{
	struct change *change, *next;

	remove_proc_entry(POLLS_FILE, NULL);
	rtnl_lock();
	ready = false;
	list_for_each_entry_safe(change, next, &changes, list) {
		put_back(change);
		forget(change);
	}
	rtnl_unlock();
	unregister_netdevice_notifier(&notifier);
}

module_init(hypertare_napi_init);
module_exit(hypertare_napi_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Sets and shows the NAPI weight of network devices, and counts their polls");
